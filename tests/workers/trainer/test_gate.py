"""The gate before a real socket: it waits while the engine is busy; goes on when it is not, when a share is due, at the end."""

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest
import uvicorn

from tests.fakes.engine import FakeEngine
from workers.trainer.compute import Compute
from workers.trainer.gate import ComputeState, Gate

PATIENT = Compute(quiet_s=0.05, look_s=0.01, grace_s=1e9)  # no share of it is ever due
_DEADLINE_S = 30.0


@dataclass(frozen=True)
class Served:
    """The engine of these tests; `busy` puts a request in flight, or takes it away."""

    url: str
    engine: FakeEngine

    def busy(self, yes: bool) -> None:
        if yes:
            self.engine.model.running["r"] = asyncio.Event()
        else:
            self.engine.model.running.clear()


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    engine, listener = FakeEngine(), socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(engine.app(), log_config=None, access_log=False, lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    yield Served(f"http://127.0.0.1:{listener.getsockname()[1]}", engine)
    server.should_exit = True
    thread.join()


def until(holds: Callable[[], bool]) -> None:
    """Wait for a condition; nothing else tells when a thread has looked."""
    waited = threading.Event()
    for _ in range(int(_DEADLINE_S / 0.01)):
        if holds():
            return
        waited.wait(0.01)
    raise AssertionError("it never came to that")


def state(path: Path) -> ComputeState | None:
    return msgspec.json.decode(path.read_bytes(), type=ComputeState) if path.exists() else None


def test_training_waits_for_a_busy_engine_and_the_file_says_so(served: Served, tmp_path: Path) -> None:
    path, passed = tmp_path / "compute.json", threading.Event()
    served.busy(True)
    with Gate(PATIENT, [served.url], path, lambda: 2.0, threading.Event()) as gate:
        until(lambda: (told := state(path)) is not None and told.mode == "serves")
        worker = threading.Thread(target=lambda: (gate.pass_(), passed.set()))
        worker.start()
        until(lambda: (told := state(path)) is not None and told.trainer == "waits" and told.backlog == 2.0)
        assert not passed.is_set()
        served.busy(False)
        assert passed.wait(_DEADLINE_S)
        worker.join()
        assert gate.waited_s > 0
        gate.leave()
    assert not path.exists()


def test_training_stops_between_two_layers_when_a_request_comes(served: Served, tmp_path: Path) -> None:
    path, gone_on = tmp_path / "compute.json", threading.Event()
    with Gate(PATIENT, [served.url], path, lambda: 1.0, threading.Event()) as gate:
        gate.pass_()
        served.busy(True)
        until(lambda: (told := state(path)) is not None and told.mode == "serves")
        worker = threading.Thread(target=lambda: (gate.give_way(), gone_on.set()))
        worker.start()
        until(lambda: (told := state(path)) is not None and told.trainer == "waits")
        assert not gone_on.is_set()
        served.busy(False)
        assert gone_on.wait(_DEADLINE_S)
        worker.join()
        gate.leave()
        assert gate.waited_s > 0


def test_a_microbatch_that_was_due_is_not_stopped(served: Served, tmp_path: Path) -> None:
    served.busy(True)
    path = tmp_path / "compute.json"
    with Gate(Compute(quiet_s=0.05, look_s=0.01, grace_s=0.1), [served.url], path, lambda: 1.0, threading.Event()) as gate:
        until(lambda: (told := state(path)) is not None and told.mode == "serves")
        gate.pass_()
        waited_s = gate.waited_s
        gate.give_way()
        assert gate.waited_s == waited_s
    served.busy(False)


def test_a_share_that_is_due_passes_a_busy_engine(served: Served, tmp_path: Path) -> None:
    served.busy(True)
    short = Compute(quiet_s=0.05, look_s=0.01, grace_s=0.1)
    with Gate(short, [served.url], tmp_path / "compute.json", lambda: 1.0, threading.Event()) as gate:
        for _ in range(3):
            gate.pass_()
    served.busy(False)


def test_a_stop_lets_everything_pass(served: Served, tmp_path: Path) -> None:
    served.busy(True)
    stop, path = threading.Event(), tmp_path / "compute.json"
    with Gate(PATIENT, [served.url], path, lambda: 1.0, stop) as gate:
        until(lambda: (told := state(path)) is not None and told.mode == "serves")
        stop.set()
        gate.pass_()
    served.busy(False)


def test_an_engine_that_is_gone_needs_no_cores(tmp_path: Path) -> None:
    with Gate(PATIENT, ["http://127.0.0.1:9"], tmp_path / "compute.json", lambda: 1.0, threading.Event()) as gate:
        gate.pass_()


def test_without_following_the_load_nothing_waits_and_nothing_is_asked(tmp_path: Path) -> None:
    with Gate(
        Compute(follow_load=False), ["http://127.0.0.1:9"], tmp_path / "compute.json", lambda: 1.0, threading.Event()
    ) as gate:
        gate.pass_()
        assert gate.waited_s == 0.0
