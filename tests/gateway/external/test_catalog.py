"""The file of external models: what it says, and a sentence for each way in which it cannot be used."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.external.catalog import Price, read_catalog
from gateway.external.errors import InvalidCatalog

JUDGE = '[[models]]\nname = "judge"\nlitellm_model = "openai/gpt-4o-mini"\n'


def written(directory: Path, text: str) -> Path:
    path = directory / "external.toml"
    path.write_text(text)
    return path


def test_a_model_has_its_address_its_key_and_its_price(tmp_path: Path) -> None:
    more = 'api_base = "http://h:1/v1"\napi_key_env = "THE_KEY"\ninput_cost_per_token = 1e-7\noutput_cost_per_token = 4e-7\n'
    models = read_catalog(written(tmp_path, JUDGE + more + JUDGE.replace("judge", "plain")), {"THE_KEY": "secret"})
    judge, plain = models["judge"], models["plain"]
    assert (judge.api_base, judge.api_key, judge.price) == ("http://h:1/v1", "secret", Price(1e-7, 4e-7))
    assert (plain.api_base, plain.api_key, plain.price) == (None, None, Price())
    assert "secret" not in repr(judge)


def test_a_price_of_nothing_is_a_price(tmp_path: Path) -> None:
    free = "input_cost_per_token = 0\noutput_cost_per_token = 0.0\n"
    assert read_catalog(written(tmp_path, JUDGE + free), {})["judge"].price == Price(0, 0)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[[models", "external.toml"),
        ('[[models]]\nname = "judge"\n', "litellm_model"),
        (JUDGE + "api_bse = 1\n", "api_bse"),
        (JUDGE + JUDGE, "same name"),
        (JUDGE + 'api_key_env = "THE_KEY"\n', "THE_KEY, which is not set"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_what_is_wrong(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(InvalidCatalog, match=sentence):
        read_catalog(written(tmp_path, text), {})


def test_the_program_says_what_it_misses(tmp_path: Path) -> None:
    environment = os.environ | {"HEADRACE_EXTERNAL_CONFIG_DIR": str(tmp_path)}
    command = [sys.executable, "-m", "gateway.external"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1 and "external.toml cannot be read" in done.stderr


def test_the_import_of_litellm_asks_nothing_of_the_network() -> None:
    counting = (
        "import socket, sys; asked = []; "
        "socket.getaddrinfo = lambda *a, **k: asked.append(a) or (_ for _ in ()).throw(OSError('no network')); "
        "import gateway.external.provider; sys.exit(len(asked))"
    )
    unset = {name: value for name, value in os.environ.items() if not name.startswith("LITELLM_")}
    assert subprocess.run([sys.executable, "-c", counting], env=unset, timeout=120, check=False).returncode == 0
