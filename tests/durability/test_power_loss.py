"""A loss of power at a random moment of a loaded machine: whatever becomes of what was not synced, no answer in full is lost."""

import random
import shutil
import sqlite3
from collections import Counter
from pathlib import Path

import pytest
from sqlalchemy import select

from dataproxy.services import Services, build_services
from dataproxy.settings import Settings
from dataproxy.store.schema import event
from tests.durability.machine import Machine, machine
from tests.durability.power import LOSSES, check_database, copy_after_loss, end_of_commits, frozen
from tests.durability.results import keep
from tests.durability.test_kills import load, num_answers, wait_for_answers
from tests.e2e import oracle

pytestmark = [
    pytest.mark.slow,
    # httpcore leaves the socket that a data proxy between two lives refused to the collector
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
LONG = 10


@pytest.mark.parametrize("moments", [pytest.param(3, id="3"), pytest.param(60, id="60", marks=pytest.mark.soak)])
def test_nothing_that_a_client_has_is_lost_or_stored_twice_by_a_loss_of_power(tmp_path: Path, moments: int) -> None:
    received, rng, unpromised, num_checked = tmp_path / "received.jsonl", random.Random(moments), 0, 0
    with machine(tmp_path, HEADRACE_GATEWAY_JOURNAL_SEGMENT_BYTES="60000") as here:
        key = here.new_agent()
        with load(here, key, received):
            for moment in range(moments):
                wait_for_answers(here, received, 10)
                copies = {name: tmp_path / f"{moment}-{name}" for name in LOSSES}
                with frozen(here):
                    known = [oracle.event_id(line["id"]) for line in oracle.lines(received, "answer")]
                    for name, copy in copies.items():
                        unpromised += copy_after_loss(here, copy, LOSSES[name], rng)
                for copy in copies.values():
                    check_recovered(here, copy, known)
                    num_checked += len(known)
                    if moment == moments - 1:
                        check_the_check(here, copy, known)
                    shutil.rmtree(copy)
        assert num_answers(received) > 10 * moments
    losses = moments * len(LOSSES)
    print(f"{losses} losses of power, {unpromised} bytes that nobody had promised, {num_checked} answers looked for")
    assert unpromised > 0, "nothing was ever at risk: the test would show nothing"
    if moments > LONG:
        keep("power_loss", losses=losses, unpromised_bytes=unpromised, answers_looked_for=num_checked, lost=0, twice=0)


def check_recovered(here: Machine, copy: Path, known: list[str]) -> None:
    """A new data proxy on ``copy`` ends up with every answer of ``known`` once, and with a whole database."""
    settings = Settings(data_dir=copy, config_dir=here.paths.config_dir, tokenizer_path=copy.parent / "tokenizer.json", mask_id=3)
    services = build_services(settings, here.files)
    try:
        while services.drain.run_once():
            pass
        stored = stored_answers(services)
    finally:
        services.database.close()
    check_database(copy / "store")
    assert not [identifier for identifier in known if stored[identifier] != 1]
    assert not [identifier for identifier, times in stored.items() if times > 1]


def stored_answers(services: Services) -> Counter[str]:
    """How often each complete answer is in the store."""
    query = select(event.c.event_id).where(event.c.kind == "model_call", event.c.delivery == "complete")
    with services.database.read() as connection:
        return Counter(connection.execute(query).scalars())


def check_the_check(here: Machine, copy: Path, known: list[str]) -> None:
    """It can fail: a loss that takes what had been synced is seen."""
    shutil.rmtree(copy / "store")
    for segment in (copy / "journal").glob("*.seg"):
        segment.write_bytes(segment.read_bytes()[: segment.stat().st_size // 2])
    with pytest.raises(AssertionError):
        check_recovered(here, copy, known)


def test_the_end_of_a_log_is_its_last_commit(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE t (x)")
    connection.execute("PRAGMA cache_size = 2")
    wal = path.with_name("store.db-wal")
    committed = wal.stat().st_size
    assert end_of_commits(wal) == committed
    connection.execute("BEGIN")
    connection.executemany(
        "INSERT INTO t VALUES (?)", [("y" * 3000,)] * 200
    )  # more than the cache holds: written before the commit
    assert wal.stat().st_size > committed and end_of_commits(wal) == committed
    connection.execute("COMMIT")
    assert end_of_commits(wal) == wal.stat().st_size
    connection.close()
