"""Fixtures that several packages of tests share."""

import re
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# sentencepiece 0.2.1 crashes Python at exit (SIGSEGV in SWIG's clean-up), which turns a passed run into exit status 139. gguf
# and transformers take it only if it is there, and no test runs a tokenizer of its kind.
sys.modules.setdefault("sentencepiece", None)  # type: ignore[arg-type]

pytest_plugins = ["tests.engine_fixture"]

# No absolute time is asserted: how long an example takes says how busy the machine is. Every run draws the same examples, so what
# fails fails for everybody; `--hypothesis-profile=explore` draws new ones.
_PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("headrace", _PATIENT, derandomize=True)
settings.register_profile("explore", _PATIENT, max_examples=300)
settings.load_profile("headrace")

_ROOT = Path(__file__).parent
_LONG = {
    "": "bench cases conformance e2e console/test_page_plans",
    "dataproxy/": "ingest/test_events_route ledger/test_bundle ledger/test_tampering store/test_migrations store/test_plans",
    "dataproxy/api/": "test_api test_on_record test_recording test_redaction test_review test_review_marks",
    "deploy/": "test_audit test_cli test_demo_figures test_running test_supervisor test_wheel",
    "gateway/": "external fleet openapi test_gaps test_hold test_process test_processes",
    "gateway/test_": "bad_input dialects edge ingest side_routes stored unanswered upstream_failures",
    "workers/inference/": "test_model continuity/test_properties continuity/test_share",
    "workers/trainer/test_": "adapter critic dry_run gate gradient joined publish reference rolling step",
}
_LONG_PATHS = {_ROOT / f"{prefix}{name}" for prefix, names in _LONG.items() for name in names.split()}

_LEFT_OUT = re.compile(r"\bnot (\w+)")
_PYTESTMARK = re.compile(r"^pytestmark = (.*)", re.MULTILINE)
_MARK = re.compile(r"pytest\.mark\.(\w+)")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What starts processes of its own, or draws many examples, is slow as a whole: the unit run leaves it out."""
    for item in items:
        if _is_long(item.path):
            item.add_marker(pytest.mark.slow)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """What this run leaves out is not imported either, nor a directory's conftest: most of it wants torch or an agent's SDK."""
    left_out = set(_LEFT_OUT.findall(config.option.markexpr))
    return True if left_out & _marks_of(collection_path) else None


def _marks_of(path: Path) -> set[str]:
    """The marks that all tests of a file or directory have."""
    whole = "".join(_PYTESTMARK.findall(path.read_text())) if path.suffix == ".py" else ""
    return {*_MARK.findall(whole), *(["slow"] if _is_long(path) else [])}


def _is_long(path: Path) -> bool:
    return not _LONG_PATHS.isdisjoint((path.with_suffix(""), *path.parents))
