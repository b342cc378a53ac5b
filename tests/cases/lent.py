"""Exchanges made by hand, put into the store, and what a trainer is lent of them."""

from typing import Any

from atdp.samples import Lease
from dataproxy.client.types import Feedback, LeaseRequest
from dataproxy.feedback import Desk, give_feedback
from dataproxy.lease.leases import grant_lease
from tests.dataproxy.exchanges import MAC_SECRET, write
from tests.dataproxy.proxy import Proxy


async def store(proxy: Proxy, *pairs: Any) -> None:
    """Drain these exchanges."""
    journal = proxy.journal()
    await write(journal, *pairs)
    journal.close()
    proxy.drain()


def lent(proxy: Proxy, event_id: str) -> Lease:
    """What a trainer gets once ``event_id`` is rewarded."""
    desk = Desk("acme", MAC_SECRET, proxy.services.digests("acme"))
    with proxy.services.database.write() as connection:
        give_feedback(connection, desk, Feedback(event_id, 1.0), "key-1", proxy.clock())
    proxy.clock.advance(60)
    wanted = LeaseRequest(max_trajectories=9, ttl_s=60, version_now="v000000", max_staleness=1, max_reuse=1)
    with proxy.services.database.write() as connection:
        return grant_lease(connection, wanted, "", "key-t", None, proxy.clock(), settle_s=2)
