"""Tampering with a store and its checkpoints in every way that a raw connection allows: the audit names it, each time."""

import random
import re
import shutil
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from dataproxy.client.review_types import LegalHold
from dataproxy.retain.holds import add_hold
from dataproxy.store.schema import metadata
from tests.dataproxy.exchanges import exchange, user, write
from tests.dataproxy.ledger.lived_in import audited, copy, decide, live
from tests.dataproxy.ledger.tampering import (
    HANGING,
    TABLES,
    TAMPERINGS,
    Copy,
    change,
    drop_tail,
    other_key,
    put_back,
    rewrite_file,
    rows_of,
    swap_blobs,
)
from tests.dataproxy.ledger.touched import Before
from tests.dataproxy.proxy import SECRET_WORD, Clock, Proxy
from tests.dataproxy.retain.erasing import erased
from tests.durability.results import keep


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> "Scene":
    return Scene(tmp_path_factory.mktemp("scene"))


class Scene:
    """One lived-in store, and as many copies of it as a test tampers with."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._num = 0
        self.clock = Clock()
        self.proxy = Proxy(directory / "origin", self.clock)
        self.proxy.consent()

    async def prepare(self) -> None:
        """Fill it, once; ``earlier`` is how it was before the last checkpoint."""
        if self._num == 0:
            self._num = 1
            await live(self.proxy, self.clock)
            await self._secret_beside_the_messages()
            decide(self.proxy, self.clock)
            erased(self.proxy, "session", "named-other", tenant="other")
            with self.proxy.services.database.write() as connection:
                add_hold(connection, LegalHold("acme", "tenant", "", "case 7"), "key-9", 1)
            self.proxy.services.checkpoints.cut()
            self.earlier, _ = copy(self.proxy, self._directory / "earlier")
            shutil.move(self.earlier.with_name("headrace.db-wal"), self.earlier.with_suffix(".wal"))
            _checkpoint(self.earlier)
            self.proxy.consent("later")
            self.proxy.consent("acme")
            self.proxy.services.checkpoints.cut()

    async def _secret_beside_the_messages(self) -> None:
        """What is redacted there is the event's own span, and no text's."""
        journal = self.proxy.journal()
        await write(journal, exchange([user("hello")], SECRET_WORD, metadata={"ticket": SECRET_WORD}))
        journal.close()
        self.proxy.drain()

    def copy(self) -> Copy:
        """A fresh one."""
        self._num += 1
        return Copy(*copy(self.proxy, self._directory / str(self._num)), self.earlier, self.proxy.files.ledger_public())


def _checkpoint(database: Path) -> None:
    """Fold the write-ahead log of a copied database into it."""
    import sqlite3

    shutil.move(database.with_suffix(".wal"), database.with_name("headrace.db-wal"))
    raw = sqlite3.connect(database)
    raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    raw.close()


def tamper_and_audit(scene: Scene, tamper: Callable[[Copy, random.Random], str], seed: int) -> None:
    made = scene.copy()
    before = Before(made)
    done = tamper(made, random.Random(seed))
    touched = before.touched()
    assert touched.names, f"seed {seed}: {done} touched nothing"
    report = audited(scene.proxy, made.database, made.checkpoints, made.public)
    shutil.rmtree(made.database.parents[1])
    assert not report.ok and report.problems, f"seed {seed}: {done} went unseen"
    fault = touched.fault(report.problems)
    assert not fault, f"seed {seed}: {done}: {fault}"


async def test_the_control_an_untouched_copy_verifies(scene: Scene) -> None:
    await scene.prepare()
    made = scene.copy()
    report = audited(scene.proxy, made.database, made.checkpoints)
    assert report.ok and report.leaves > 15, report.problems
    with closing(made.open()) as raw:
        assert [table for table in TABLES if not rows_of(raw, table)] == []  # each can be tampered with


_SEEDS = [*range(11), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(11, 44))]


@pytest.mark.parametrize("seed", _SEEDS)
async def test_the_audit_names_what_was_done(scene: Scene, seed: int) -> None:
    await scene.prepare()
    tamper_and_audit(scene, TAMPERINGS[seed % len(TAMPERINGS)], seed)


@pytest.mark.soak
async def test_the_audit_names_what_was_done_500_times(scene: Scene) -> None:
    await scene.prepare()
    kinds: Counter[str] = Counter()
    for seed in range(1000, 1500):
        tamper = TAMPERINGS[seed % len(TAMPERINGS)]
        tamper_and_audit(scene, tamper, seed)
        kinds[tamper.__name__] += 1
    keep("tampering", tried=kinds.total(), named=kinds.total(), kinds=dict(kinds))


def test_the_docs_say_of_every_table_whether_the_log_vouches_for_it() -> None:
    text = (Path(__file__).parents[3] / "docs" / "audit.md").read_text()
    vouched, others = text.partition("| vouched for | by |")[2].split("| not vouched for |")
    for part, tables in ((vouched, set(TABLES)), (others.partition("\n\n")[0], set(metadata.tables) - set(TABLES))):
        named = [name for row in part.splitlines() if row.startswith("| `") for name in re.findall(r"`(\w+)`", row.split("|")[1])]
        assert sorted(named) == sorted(tables)


async def test_it_names_the_row(scene: Scene) -> None:
    await scene.prepare()
    made = scene.copy()
    with made.open() as raw:
        (event_id,) = raw.execute("SELECT event_id FROM event WHERE kind = 'model_call' AND tenant = 'acme' LIMIT 1").fetchone()
        raw.execute("UPDATE event SET body = x'7b7d' WHERE event_id = ?", (event_id,))
    raw.close()
    report = audited(scene.proxy, made.database, made.checkpoints)
    assert [(one.tenant, one.table, one.key) for one in report.problems] == [("acme", "event", event_id)]
    assert "not what was stored" in report.problems[0].what


@pytest.mark.parametrize("table", [*HANGING, "content_span"])
async def test_a_row_under_a_tenant_that_nobody_has_heard_of_is_named(scene: Scene, table: str) -> None:
    await scene.prepare()
    made = scene.copy()
    with closing(made.open()) as raw:
        row = {**rows_of(raw, table)[0], "tenant": "stranger"}
        names = ", ".join(f'"{name}"' for name in row)
        raw.execute(f'INSERT INTO "{table}" ({names}) VALUES ({", ".join("?" * len(row))})', list(row.values()))
    report = audited(scene.proxy, made.database, made.checkpoints)
    assert [(one.tenant, one.table) for one in report.problems] == [("stranger", table)]


@pytest.mark.parametrize("tamper", [put_back, drop_tail, swap_blobs, rewrite_file, change, other_key])
async def test_what_only_the_file_outside_can_tell_is_told(scene: Scene, tamper: Callable[[Copy, random.Random], str]) -> None:
    await scene.prepare()
    tamper_and_audit(scene, tamper, 7)
