"""The audit of a store that nobody touched, and of the same store taken over from before it had a ledger."""

from pathlib import Path

from sqlalchemy import select, text

from dataproxy.ledger.adopt import adopt
from dataproxy.store.schema import log_leaf, log_salt
from tests.dataproxy.ledger.lived_in import audited, copy, live
from tests.dataproxy.proxy import Clock, Proxy


async def test_an_untouched_store_verifies_with_every_kind_of_row_in_it(proxy: Proxy, clock: Clock, tmp_path: Path) -> None:
    await live(proxy, clock)
    report = audited(proxy, *copy(proxy, tmp_path / "copy"))
    assert report.ok, report.problems
    kinds = {row.kind for row in proxy.rows(select(log_leaf.c.kind))}
    assert kinds >= {"event", "reward", "consent", "training_use", "batch", "policy_version_state", "quarantine", "access_log"}
    assert report.leaves == proxy.count(log_leaf) > 15 and report.checkpoints >= 4
    chained = {row.chain for row in proxy.rows(select(log_leaf.c.chain).where(log_leaf.c.kind == "reward"))}
    assert chained and "" not in chained


async def test_no_salt_and_no_key_is_in_what_is_shown(proxy: Proxy, clock: Clock, tmp_path: Path) -> None:
    await live(proxy, clock)
    salts = [row.salt for row in proxy.rows(select(log_salt.c.salt))]
    shown = proxy.services.checkpoints.file.read_bytes()
    assert len(set(salts)) == len(salts) and not any(salt in shown for salt in salts)
    assert proxy.files.ledger_private() not in shown


async def test_a_store_older_than_its_ledger_is_taken_into_it(proxy: Proxy, clock: Clock, tmp_path: Path) -> None:
    await live(proxy, clock)
    with proxy.services.database.write() as connection:
        for table in ("log_leaf", "checkpoint"):
            connection.execute(text(f"DROP TRIGGER {table}_no_delete"))
        for table in ("log_leaf", "log_salt", "log_head", "checkpoint"):
            connection.execute(text(f"DELETE FROM {table}"))
        connection.execute(text("UPDATE content SET owner = ''"))
    proxy.services.checkpoints.file.unlink()
    with proxy.services.database.write() as connection:
        assert adopt(connection) > 15
        assert adopt(connection) == 0
    proxy.services.checkpoints.cut()
    assert audited(proxy, *copy(proxy, tmp_path / "copy")).ok
