"""A data proxy in a process of its own, which can be killed and started again while a trainer, another process, works."""

import asyncio
import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from safetensors.torch import load_file

from dataproxy.capture import Journal
from dataproxy.client import SyncDataProxyClient
from dataproxy.client.types import Consent, Feedback
from tests.dataproxy.exchanges import exchange, record, user, write
from tests.dataproxy.proxy import migrated_store
from tests.dataproxy.test_process import answers, prepared
from tests.fakes.engine import FakeEngine
from tests.forker import Forked, forker
from tests.postgres import PostgresDatabase
from tests.workers.trainer.world import environment, served
from workers.trainer.paths import TrainerPaths

_PATIENCE_S = 120.0


class Site:
    """One machine in ``directory``: the data proxy on ``database`` (None: SQLite), a journal, a fake engine at ``engine_url``."""

    def __init__(self, directory: Path, model: Path, engine_url: str, database: PostgresDatabase | None) -> None:
        self.files = prepared(directory)
        self.paths = TrainerPaths(directory / "data")
        self.log, self.faults = directory / "trainer.log", directory / "faults"
        self.store_log = directory / "dataproxy.log"
        self.faults.mkdir()
        self.engine_url = engine_url
        self._where, self._database = (directory, model, engine_url), database
        if database is None:
            store = directory / "data" / "store" / "headrace.db"
            store.parent.mkdir(parents=True, mode=0o700)
            store.write_bytes(migrated_store())
        tokens = {chr(97 + number // 26) + chr(97 + number % 26): number for number in range(128)}
        table = {"decoder": {"type": "ByteLevel"}, "model": {"vocab": tokens}, "added_tokens": []}
        (directory / "tokenizer.json").write_text(json.dumps(table))
        own = {"DATA_DIR": str(directory / "data"), "CONFIG_DIR": str(directory / "config"), "SETTLE_S": "0"}
        own |= {"TOKENIZER_PATH": str(directory / "tokenizer.json"), "MASK_ID": "3"}
        ours = {f"HEADRACE_DATAPROXY_{name}": value for name, value in own.items()}
        self._store_environment = os.environ | ours | {"HEADRACE_FAULTS": str(self.faults)}
        if database is not None:
            self._store_environment |= database.environment
        self._random = np.random.default_rng(0)
        self._processes: list[Forked] = []
        self.start_store()
        self.journal = Journal.open(directory / "data" / "journal", self.files.journal_public())

    def start_store(self) -> None:
        """Start a data proxy, ``store``; returns once it answers."""
        self.store = self._fork("dataproxy", self._store_environment, self.store_log)
        self.until(lambda: answers(self.paths.socket), "an answer of the data proxy")

    def train(self, **settings: object) -> Forked:
        """A trainer, which goes on until it has taken ``max_steps``."""
        directory, model, engine_url = self._where
        said = environment(self.paths, directory / "config", model, engine_url, self.faults, **({"lease_ttl_s": 3} | settings))
        return self._fork("workers.trainer", said, self.log)

    def _fork(self, module: str, said: Mapping[str, str], log: Path) -> Forked:
        made = forker().start(module, [], said, log)
        self._processes.append(made)
        return made

    def client(self, key: str = "admin") -> SyncDataProxyClient:
        """The data proxy, with the key of that role. Close it."""
        return SyncDataProxyClient(self.paths.socket, self.files.api_key(key))

    def consent(self) -> None:
        """acme's agents may be recorded and trained on."""
        with self.client() as client:
            client.set_consent(Consent("acme", True, True, "a test"))

    def earn(self, num: int, version: str = "v000000") -> list[str]:
        """Journal calls and reward them; gives their event ids."""
        names = self.journal_calls(num, version)
        self.reward(names)
        return names

    def journal_calls(self, num: int, version: str) -> list[str]:
        """Journal ``num`` calls sampled by ``version``; gives their event ids."""
        pairs = []
        for _ in range(num):
            prompt, output = self._random.integers(3, 90, 6).tolist(), self._random.integers(3, 90, 4).tolist()
            now_us = time.time_ns() // 1000
            asked, got = exchange([user("q")], started_us=now_us, ended_us=now_us)
            told = record(asked.completion_id, prompt, [output], logprobs=[[-4.5] * 4], version=version)
            pairs.append((asked, msgspec.structs.replace(got, record=told)))
        asyncio.run(write(self.journal, *pairs))
        return [asked.event_id for asked, _ in pairs]

    def reward(self, names: list[str]) -> None:
        """Reward calls once they are stored."""
        stored = "SELECT count(*) FROM event WHERE event_id IN ('" + "','".join(names) + "')"
        self.until(lambda: self.rows(stored) == [(len(names),)], f"{len(names)} stored calls")
        with self.client() as client:
            for name in names:
                client.feedback(Feedback(name, float(self._random.integers(0, 2))))

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """``query`` on the store, past the product's own code and row-level security."""
        if self._database is not None:
            return self._database.rows(query)
        with closing(sqlite3.connect(f"file:{self.paths.data_dir / 'store' / 'headrace.db'}?mode=ro", uri=True)) as connection:
            return connection.execute(query).fetchall()

    def is_running(self, process: Forked) -> bool:
        """Whether it has not ended."""
        return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"

    def passed(self, point: str) -> int:
        """How many processes have passed a fault point."""
        log = self.faults / f"{point}.log"
        return log.read_text().count("\n") if log.exists() else 0

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for it."""
        deadline = time.monotonic() + _PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline, f"{what} did not come:\n{self.last_words()}"
            time.sleep(0.01)

    def last_words(self) -> str:
        """The ends of the logs."""
        return "\n".join(path.read_text()[-3000:] for path in (self.store_log, self.log) if path.exists())

    def uses(self, names: list[str]) -> dict[str, int]:
        """By version: how many of these events' trajectories it is on record as having learned from; each once at most."""
        quoted = "','".join(names)
        columns = "SELECT u.version, count(*), count(DISTINCT u.trajectory_id)"
        tables = "FROM training_use u JOIN event e ON e.trajectory_id = u.trajectory_id"
        found = self.rows(f"{columns} {tables} WHERE e.event_id IN ('{quoted}') GROUP BY u.version")
        assert all(num == num_distinct for _, num, num_distinct in found), found
        return {version: num for version, num, _ in found}

    def close(self) -> None:
        """End what runs."""
        self.journal.close()
        for process in self._processes:
            process.end()


@contextmanager
def running_site(directory: Path, model: Path, database: PostgresDatabase | None = None) -> Iterator[Site]:
    """A site whose data proxy answers."""
    with ExitStack() as stack:
        engine = FakeEngine()
        engine.model.weights.tensors = load_file(model / "model.safetensors")
        site = Site(directory, model, stack.enter_context(served(engine)), database)
        stack.callback(site.close)
        site.consent()
        yield site
