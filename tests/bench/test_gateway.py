"""The gateway bench on itself: counts add up, a slower gateway shows as slower, the mock engine satisfies ours."""

import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from bench.gateway.cases import Case
from bench.gateway.contestants import STARTS, Running, Site, start_engine
from bench.gateway.measure import RefusedError, Sample, engine_stats, measure
from bench.gateway.plan import Plan, Results, num_measurements, run
from bench.gateway.processes import cores, free_port, started, wait_ready
from bench.gateway.programs import is_compiled
from bench.gateway.report import QUICK_KEYS, cells, headline
from bench.gateway.scaling import scale
from tests.bench import slow_relay

pytestmark = pytest.mark.skipif(shutil.which("taskset") is None, reason="pins processes with taskset")


@pytest.fixture(params=["compiled", "asyncio"])
def direct(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    """The mock engine, compiled and not; load comes from the generator of the same kind."""
    if request.param == "asyncio":
        monkeypatch.setattr("bench.gateway.programs.shutil.which", lambda _: None)
    elif not is_compiled():
        pytest.skip("no C compiler")
    with ExitStack() as stack:
        engine = start_engine(stack, tmp_path)
        assert engine.stdout is not None
        yield Running("direct", int(engine.stdout.readline()), engine.pid, "mock engine")


def _some(gateway: Running, case: Case, directory: Path, num_requests: int) -> Sample:
    return measure(gateway, case, directory, seconds=30, warmup_s=0, max_requests=num_requests)


def test_the_engine_served_what_the_load_generator_counted(direct: Running, tmp_path: Path) -> None:
    sample = _some(direct, Case(connections=4), tmp_path, 40)
    stats = engine_stats(direct.port)
    assert sample.load.requests == stats["requests"] == stats["finished"] == 40
    assert stats["streams"] == stats["lost"] == 0
    assert sample.cpu_us > 0


def test_events_arrive_as_often_as_the_engine_sent_them(direct: Running, tmp_path: Path) -> None:
    sample = _some(direct, Case(connections=2, gap_us=100), tmp_path, 4)
    stats = engine_stats(direct.port)
    assert stats["streams"] == stats["finished"] == 4
    assert stats["events"] == 4 * 100
    assert sample.load.events == stats["events"] + 4 * 2  # each stream ends with its finish_reason and [DONE]
    assert sample.load.first_p50_us < sample.load.p50_us
    assert 0 <= sample.load.gap_p50_us <= sample.load.gap_p99_us < sample.load.p50_us and sample.load.gap_p99_us > 0


def test_a_refusal_is_no_result(direct: Running, tmp_path: Path) -> None:
    with ExitStack() as stack:
        port = free_port()
        process = stack.enter_context(
            started([sys.executable, slow_relay.__file__, str(port), "404"], cores()[0], tmp_path / "log")
        )
        wait_ready(process, f"http://127.0.0.1:{port}/", 30)
        refusing = Running("refuses", port, process.pid, "")
        with pytest.raises(RefusedError, match="refuses"):
            _some(refusing, Case(connections=2), tmp_path, 10)


def test_a_relay_that_burns_cpu_shows_as_slower(direct: Running, tmp_path: Path) -> None:
    with ExitStack() as stack:
        relays = []
        for name, spins in (("fast", 0), ("slow", 20_000)):
            port = free_port()
            argv = [sys.executable, slow_relay.__file__, str(port), str(direct.port), str(spins)]
            process = stack.enter_context(started(argv, cores()[0], tmp_path / f"{name}.log"))
            wait_ready(process, f"http://127.0.0.1:{port}/ready", 30)
            relays.append(Running(name, port, process.pid, ""))
        cases = ((Case(connections=2), ("fast", "slow")),)
        plan = Plan(cases, rounds=2, seconds=0.2, warmup_s=0.05, growth_requests=0, growth_s=0, deadline_s=300, install_timeout_s=0)
        told: list[str] = []
        results = run(plan, relays, tmp_path, time.monotonic(), told.append)
        assert len(told) == num_measurements(plan, relays) == 4
        fast, slow = (results.best(Case(connections=2), name) for name in ("fast", "slow"))
        assert fast is not None and slow is not None
        assert slow.cpu_us > 2 * fast.cpu_us
        assert [row["gateway"] for row in cells(results)] == ["fast", "slow"]


def test_ours_records_and_serves_in_front_of_the_mock_engine(direct: Running, tmp_path: Path) -> None:
    with ExitStack() as stack:
        off, on = STARTS["ours"](Site(stack, tmp_path, direct.port, direct.pid, 0))
        before = engine_stats(direct.port)["requests"]
        for gateway in (off, on):
            assert _some(gateway, Case(connections=2), tmp_path, 20).load.requests == 20
        stream = _some(on, Case(connections=2, gap_us=100), tmp_path, 4)
        assert stream.load.events == 4 * 102  # the record's event is not among them
        assert engine_stats(direct.port)["requests"] - before == 44
        assert on.journal is not None
        assert sum(segment.stat().st_size for segment in on.journal.glob("*.seg")) > 24 * 2_000


def test_several_processes_serve_as_one(direct: Running, tmp_path: Path) -> None:
    with ExitStack() as stack:
        rows = scale(Site(stack, tmp_path, direct.port, direct.pid, 0), seconds=0.2, rounds=1)
    assert {row["gateway"] for row in rows} >= {"ours-1p-off", "ours-1p-on"}
    assert all(row["requests_s"] > 0 for row in rows)


def test_the_headline_has_its_keys_and_null_for_who_did_not_run() -> None:
    line = headline(Results(), None)
    assert set(QUICK_KEYS) <= line.keys()
    assert set(line.values()) == {None}
