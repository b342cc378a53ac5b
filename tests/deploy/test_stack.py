"""What ``headrace up`` hands to the data proxy about its database."""

from pathlib import Path

import pytest

from deploy.launcher.options import UpOptions
from deploy.launcher.stack import (
    DATAPROXY,
    TRAINER,
    Endpoints,
    Served,
    child_specs,
    rollback_environment,
    starts_after,
    stop_order,
)
from deploy.paths import Paths

URL, OWNER_URL = "postgresql+psycopg://headrace@/headrace", "postgresql+psycopg://headrace_owner@/headrace"


async def serving() -> Served:
    return Served(Path("/m"), "v000000")


def dataproxy_environment(tmp_path: Path, **options: str) -> dict[str, str]:
    asked = UpOptions(Paths(tmp_path / "data", tmp_path / "config"), **options)  # type: ignore[arg-type]
    specs = child_specs(asked, Endpoints("http://127.0.0.1:1", "http://127.0.0.1:2"), serving, tmp_path)
    (found,) = (spec.environment for spec in specs if spec.name == DATAPROXY)
    return dict(found)


def test_a_database_that_was_named_reaches_the_data_proxy_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("HEADRACE_DATAPROXY_DATABASE_URL", "HEADRACE_DATAPROXY_DATABASE_OWNER_URL")
    for name in names:
        monkeypatch.delenv(name, raising=False)
    environment = dataproxy_environment(tmp_path, database_url=URL, database_owner_url=OWNER_URL)
    assert [environment[name] for name in names] == [URL, OWNER_URL]
    assert not set(names) & set(dataproxy_environment(tmp_path))


def test_two_workers_are_two_engines_that_gateway_trainer_and_keeper_know(tmp_path: Path) -> None:
    asked = UpOptions(Paths(tmp_path / "data", tmp_path / "config"), num_workers=2)
    endpoints = Endpoints("http://127.0.0.1:1", "http://127.0.0.1:2", None, ("http://127.0.0.1:3",))
    specs = {spec.name: spec for spec in child_specs(asked, endpoints, serving, tmp_path)}
    assert {"engine", "engine-2", "keeper", "trainer"} <= specs.keys() <= starts_after(2).keys() == set(stop_order(2))
    urls = '["http://127.0.0.1:2", "http://127.0.0.1:3"]'
    assert specs["gateway"].environment["HEADRACE_GATEWAY_ENGINE_URLS"] == urls
    for name in ("trainer", "keeper"):
        assert specs[name].environment["HEADRACE_TRAINER_GATEWAY_URL"] == "http://127.0.0.1:1"
    assert asked.needed_bytes > UpOptions(asked.paths).needed_bytes


def test_a_trainer_beside_a_stack_is_told_what_its_own_would_be(tmp_path: Path) -> None:
    asked = UpOptions(Paths(tmp_path / "data", tmp_path / "config"), dtype="float32")
    endpoints = Endpoints("http://127.0.0.1:1", "http://127.0.0.1:2")
    (own,) = (spec.environment for spec in child_specs(asked, endpoints, serving, tmp_path) if spec.name == TRAINER)
    facts = {"gateway": endpoints.gateway, "engines": endpoints.engines, "model_dir": str(tmp_path), "dtype": asked.dtype}
    assert rollback_environment(asked.paths, facts) == own
