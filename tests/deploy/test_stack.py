"""What ``headrace up`` hands to the data proxy about its database."""

from pathlib import Path

import pytest

from deploy.launcher.options import UpOptions
from deploy.launcher.stack import DATAPROXY, Endpoints, Served, child_specs
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
