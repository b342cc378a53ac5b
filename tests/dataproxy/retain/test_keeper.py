"""Housekeeping: checkpoints when they are due, expiry when it is due, and files purged once nobody reads old pages any more."""

from pathlib import Path

from sqlalchemy import select

from dataproxy.client.review_types import Retention
from dataproxy.retain.keeper import Keeper
from dataproxy.retain.retention import set_retention
from dataproxy.settings import Settings
from dataproxy.store.schema import checkpoint, event, tombstone
from tests.dataproxy.exchanges import exchange, user, write
from tests.dataproxy.proxy import Proxy


async def store(proxy: Proxy, text: str) -> None:
    journal = proxy.journal()
    await write(journal, exchange([user(text)]))
    journal.close()
    proxy.drain()


async def test_a_checkpoint_is_cut_when_it_is_due_and_a_last_one_at_the_end(proxy: Proxy) -> None:
    keeper = Keeper(proxy.services, Settings(checkpoint_leaves=3, checkpoint_s=60))
    keeper.look()
    first = proxy.count(checkpoint)
    await store(proxy, "a")
    keeper.look()
    assert proxy.count(checkpoint) == first  # too few leaves, too early
    proxy.clock.advance(61)
    keeper.look()
    assert proxy.count(checkpoint) == first + 1
    for text in "bcd":
        await store(proxy, text)
    keeper.look()
    assert proxy.count(checkpoint) == first + 2
    await store(proxy, "e")
    keeper.close()
    assert proxy.count(checkpoint) == first + 3
    assert len(proxy.services.checkpoints.read_file()) == first + 3


async def test_expiry_is_looked_for_now_and_then_and_files_are_purged_when_readers_let_go(proxy: Proxy) -> None:
    wal = Path(proxy.data_dir / "store" / "headrace.db-wal")
    keeper = Keeper(proxy.services, Settings(retention_s=3600))
    keeper.look()
    await store(proxy, "old")
    with proxy.services.database.write() as connection:
        set_retention(connection, Retention("acme", "none", 0, "a test"), "key-1", proxy.clock())
    keeper.look()
    assert proxy.count(tombstone) == 0  # it was looked for a moment ago
    proxy.clock.advance(3601)
    with proxy.services.database.read() as reader:
        reader.execute(select(event)).all()
        keeper.look()
        assert proxy.count(tombstone) == 1 and not proxy.services.database.purged and wal.stat().st_size > 0
    keeper.look()
    assert proxy.services.database.purged and wal.stat().st_size == 0
