"""What becomes of a gateway's exchanges behind it: journal, drain and store, read as a reviewer and a trainer read them."""

from typing import Any

from sqlalchemy import select

from atdp.events import Event
from dataproxy.admit import REASONS
from dataproxy.store.reading import find_event
from dataproxy.store.schema import eligibility, event, token_segment
from tests.cases.edge import Edge
from tests.dataproxy.exchanges import write
from tests.dataproxy.proxy import Proxy


async def drain(edge: Edge, proxy: Proxy, event_ids: list[str]) -> None:
    """Store these exchanges, once they have ended."""
    journal = proxy.journal()
    await write(journal, *[await edge.exchange(event_id) for event_id in sorted(event_ids)])
    journal.close()
    proxy.drain()


def read(proxy: Proxy, event_id: str) -> Event:
    """The event as a reviewer reads it."""
    with proxy.services.database.read() as connection:
        found = find_event(connection, "acme", event_id)
    assert found is not None
    return found


def rows(proxy: Proxy) -> dict[str, Any]:
    """The row of each event, by its id."""
    return {row.event_id: row for row in proxy.rows(select(event))}


def decisions(proxy: Proxy) -> dict[tuple[str, int], str]:
    """By event and choice whether it may train, and if not why; every reason is one that people can ask for by name."""
    found = {(row.event_id, row.choice): row.reason for row in proxy.rows(select(eligibility))}
    assert set(found.values()) <= set(REASONS)
    return found


def segments(proxy: Proxy) -> dict[tuple[str, int], Any]:
    """By event and choice the stored tokens."""
    return {(row.event_id, row.choice): row for row in proxy.rows(select(token_segment))}
