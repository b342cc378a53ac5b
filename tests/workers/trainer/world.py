"""Everything around a trainer, in this process: a real data proxy on its Unix socket and a fake engine that holds real tensors.

Trainers and publishers run as processes of their own, as in production, and may be killed at any fault point.
"""

import asyncio
import os
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import uvicorn
from safetensors.torch import load_file
from sqlalchemy import select

from dataproxy.client import SyncDataProxyClient
from dataproxy.client.types import Feedback
from dataproxy.feedback import Desk, give_feedback
from dataproxy.store.schema import event, training_use
from tests.dataproxy.api.served import serve as serve_data_proxy
from tests.dataproxy.exchanges import MAC_SECRET, exchange, record, user, write
from tests.dataproxy.proxy import Clock, Proxy
from tests.fakes.engine import FakeEngine
from tests.forker import Forked, forker
from workers.trainer.paths import TrainerPaths

SIGKILLED = -9


@dataclass(frozen=True)
class Finished:
    """A process that ended: its status (−9: killed) and what it wrote."""

    returncode: int
    stderr: str


class World:
    """One machine in `directory`. Time moves for the data proxy only when `clock` is told."""

    def __init__(self, directory: Path, model: Path) -> None:
        self.clock = Clock()
        self.proxy = Proxy(directory, self.clock)
        self.proxy.consent()
        self.paths = TrainerPaths(self.proxy.data_dir)
        self.model = model
        self.engine = FakeEngine()
        self.engine.model.weights.tensors = load_file(model / "model.safetensors")
        self.engine_url = ""
        self.log = directory / "trainer.log"
        self.faults = directory / "faults"
        self.faults.mkdir()
        (directory / "config" / "trainer.key").write_text(self.proxy.key("trainer", tenant=""))
        self.paths.socket.parent.mkdir(exist_ok=True)
        self._random = np.random.default_rng(0)

    def earn(self, num: int, version: str = "v000000") -> list[str]:
        """Store `num` rewarded trajectories sampled by `version`; gives their event ids."""
        pairs = []
        for _ in range(num):
            prompt, output = self._random.integers(3, 90, 6).tolist(), self._random.integers(3, 90, 4).tolist()
            asked, got = exchange([user("q")], started_us=self.clock(), ended_us=self.clock())
            told = record(asked.completion_id, prompt, [output], logprobs=[[-4.5] * 4], version=version)
            pairs.append((asked, msgspec.structs.replace(got, record=told)))
        journal = self.proxy.journal()
        asyncio.run(write(journal, *pairs))
        journal.close()
        self.proxy.drain()
        names = [asked.event_id for asked, _ in pairs]
        for name in names:
            self._reward(name, float(self._random.integers(0, 2)))
        self.clock.advance(10)
        return names

    def _reward(self, event_id: str, value: float) -> None:
        with self.proxy.services.database.write() as connection:
            desk = Desk("acme", MAC_SECRET, self.proxy.services.digests("acme"))
            give_feedback(connection, desk, Feedback(event_id, value), "key-1", self.clock())

    def kill_at(self, point: str) -> None:
        """Arm a fault point for the next process that passes it."""
        (self.faults / f"{point}.kill").touch()

    def environment(self, **settings: object) -> dict[str, str]:
        """The environment of a trainer here; `settings` override."""
        return environment(self.paths, self.proxy.data_dir.parent / "config", self.model, self.engine_url, self.faults, **settings)

    def train(self, **settings: object) -> Finished:
        """Run a trainer until it has taken `max_steps`, or died."""
        return self._run("workers.trainer", [], settings)

    def dry_run(self) -> Finished:
        """Ask a trainer what it would do."""
        return self._run("workers.trainer", ["--dry-run", "--json"], {})

    def roll_back(self, version: str) -> Finished:
        """Run the publisher's command."""
        return self._run("workers.trainer.publish", ["--version", version, "--rollback"], {})

    def start(self, module: str, *arguments: str, **settings: object) -> Forked:
        """Start a program of ours, and do not wait for it."""
        return forker().start(module, arguments, self.environment(**settings), self.log)

    def _run(self, module: str, arguments: list[str], settings: dict[str, object]) -> Finished:
        self.log.write_text("")
        status = self.start(module, *arguments, **settings).wait()
        return Finished(status, self.log.read_text())

    @contextmanager
    def client(self) -> Iterator[SyncDataProxyClient]:
        """The data proxy, with the trainer's key."""
        key = (self.proxy.data_dir.parent / "config" / "trainer.key").read_text()
        with SyncDataProxyClient(self.paths.socket, key) as client:
            yield client


def environment(
    paths: TrainerPaths, config_dir: Path, model: Path, engine_url: str, faults: Path, **settings: object
) -> dict[str, str]:
    """What a trainer is told; `settings` override."""
    values = {
        "data_dir": paths.data_dir, "config_dir": config_dir, "model_path": model,
        "engine_urls": f'["{engine_url}"]', "batch_trajectories": 4, "poll_s": 0.05, "checkpoint_every": 1, "max_steps": 1,
        "compute_dtype": "float32", "publish_dtype": "float32", "learning_rate": 0.01, "lease_ttl_s": 30, "train_layers": 0,
        "compute": '{"nice": 0, "follow_load": false}',
    }  # fmt: skip
    ours = {f"HEADRACE_TRAINER_{name.upper()}": str(value) for name, value in (values | settings).items()}
    return os.environ | ours | {"HEADRACE_FAULTS": str(faults), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}


@contextmanager
def run_world(directory: Path, model: Path) -> Iterator[World]:
    """A world whose data proxy and engine answer while the context lasts."""
    world = World(directory, model)
    with serve_engine(world), serve_data_proxy(world.proxy.services, world.paths.socket):
        yield world
    world.proxy.services.database.close()


@contextmanager
def serve_engine(world: World) -> Iterator[None]:
    """The fake engine in a thread with a loop of its own."""
    with served(world.engine) as world.engine_url:
        yield


@contextmanager
def served(engine: FakeEngine) -> Iterator[str]:
    """The URL of a fake engine that serves in a thread with a loop of its own."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(engine.app(), log_config=None, access_log=False, lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    server.should_exit = True
    thread.join()


@contextmanager
def served_engines(model: Path, num: int) -> Iterator[dict[str, FakeEngine]]:
    """So many fake engines with the weights of `model`, by URL."""
    with ExitStack() as stack:
        engines = {}
        for _ in range(num):
            engine = FakeEngine()
            engine.model.weights.tensors = load_file(model / "model.safetensors")
            engines[stack.enter_context(served(engine))] = engine
        yield engines


def trained_by(world: World, names: Sequence[str]) -> list[list[str]]:
    """For each event: the versions that its trajectory is on record as having trained."""
    found = []
    for name in names:
        query = select(training_use.c.version).join(event, event.c.trajectory_id == training_use.c.trajectory_id)
        found.append([row.version for row in world.proxy.rows(query.where(event.c.event_id == name))])
    return found
