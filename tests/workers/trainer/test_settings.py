"""Settings fail loudly, and the page that shows them shows the truth."""

import tomllib
from pathlib import Path

import pytest
from pydantic import ValidationError

from workers.trainer.__main__ import unknown_variables
from workers.trainer.provenance import config, config_digest
from workers.trainer.settings import Settings

PLACES = {"data_dir": Path("d"), "config_dir": Path("c"), "model_path": Path("m"), "engine_urls": ["http://e"]}


def test_a_misspelt_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_TRAINER_LERNING_RATE", "1")
    assert unknown_variables(Settings(**PLACES)) == ["HEADRACE_TRAINER_LERNING_RATE"]


def test_fewer_versions_kept_than_may_be_stale_is_refused() -> None:
    with pytest.raises(ValidationError, match="keep_versions"):
        Settings(**PLACES, keep_versions=2, max_staleness=2)


def test_provenance_tells_what_bears_on_learning_and_no_places() -> None:
    settings = Settings(**PLACES)
    assert "learning_rate" in config(settings) and not {"data_dir", "engine_urls", "tenant"} & config(settings).keys()
    assert config_digest(settings) == config_digest(Settings(**(PLACES | {"data_dir": Path("elsewhere")})))
    assert config_digest(settings) != config_digest(Settings(**PLACES, learning_rate=1e-3))


def test_the_file_in_the_config_directory_is_read_under_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_TRAINER_CONFIG_DIR", str(tmp_path))
    places = {name: value for name, value in PLACES.items() if name != "config_dir"}
    assert Settings(**places).learning_rate == 1e-4
    file = tmp_path / "trainer.toml"
    file.write_text('learning_rate = 3e-4\nseed = 5\n[agents.triage]\nadvantage = "group"\n')
    monkeypatch.setenv("HEADRACE_TRAINER_SEED", "7")
    settings = Settings(**places)
    assert (settings.learning_rate, settings.seed) == (3e-4, 7)
    assert settings.learning_of("acme", "triage").advantage == "group"
    assert settings.learning_of("acme", "other").advantage == "baseline"
    file.write_text("lerning_rate = 1")
    with pytest.raises(ValidationError, match="lerning_rate"):
        Settings(**places)


def test_the_config_that_the_documentation_shows_is_the_default_one() -> None:
    page = (Path(__file__).parents[3] / "docs" / "training.md").read_text()
    shown = tomllib.loads(page.partition("```toml\n")[2].partition("```")[0])
    assert shown.pop("agents").keys() == {"coder"}
    assert Settings(**PLACES, **shown) == Settings(**PLACES)
    assert len(shown) >= 25
