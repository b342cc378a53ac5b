"""What reviewers should look at: uncertain spans, and samples that a keyed digest draws. Nothing is queued: the store is asked.

What was marked is not shown again. A page looks at a bounded number of events and says where the next one goes on.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any, TypeAlias

from sqlalchemy import Connection, Row, exists, select

from atdp.events import Span
from dataproxy.client.vault_types import ReviewRow
from dataproxy.store.known import MESSAGES
from dataproxy.store.schema import content, content_span, event, event_span, review_mark

CERTAIN = 0.85
"""Spans of a lower score wait for somebody to look at them: names, addresses of networks, numbers known by a word beside them."""
SAMPLED_PER_MILLE = 20
_MOST_LOOKED_AT = 5000
_PAGE = 500
_CHUNK = 500
_COLUMNS = ("kind", "detector", "score", "path", "start", "end", "surrogate")
_Event: TypeAlias = Row[Any, Any, Any, Any, Any, Any]
"""tenant, event_id, agent, trajectory_id, started_us, boundary"""


def uncertain(connection: Connection, tenant: str | None, after: str, limit: int) -> tuple[list[ReviewRow], str | None]:
    """Up to ``limit`` events with uncertain spans before event ``after``, newest first, and the cursor of the next page."""

    def choose(page: Sequence[_Event]) -> set[tuple[str, str]]:
        return {
            (owner, event_id)
            for owner, mine in groupby(sorted(page, key=lambda one: one.tenant), key=lambda one: one.tenant)
            for event_id in _with_uncertain(connection, owner, list(mine))
        }

    return _chosen(connection, tenant, after, limit, choose, ("low_confidence", CERTAIN))


def samples(
    connection: Connection, tenant: str | None, after: str, limit: int, draws: Callable[[str, str], int]
) -> tuple[list[ReviewRow], str | None]:
    """The same of samples of model calls; ``draws`` gives a number below 1000 for a tenant and event id."""

    def choose(page: Sequence[_Event]) -> set[tuple[str, str]]:
        return {(one.tenant, one.event_id) for one in page if draws(one.tenant, one.event_id) < SAMPLED_PER_MILLE}

    return _chosen(connection, tenant, after, limit, choose, ("sample", 2.0), "model_call")


def spans_of(connection: Connection, tenant: str, event_id: str) -> Sequence[Span]:
    """The spans of an event and of the contents that it was first to store; those of a content begin at the content."""
    mine = (event_span.c.tenant == tenant, event_span.c.event_id == event_id)
    own = select(*(event_span.c[name] for name in _COLUMNS)).where(*mine).order_by(event_span.c.ordinal)
    rows = [*connection.execute(own)]
    for chunk in _chunks(list(_owners(connection, tenant, [event_id]))):
        those = (content_span.c.tenant == tenant, content_span.c.digest.in_(chunk))
        stored = select(*(content_span.c[name] for name in _COLUMNS)).where(*those)
        rows += connection.execute(stored.order_by(content_span.c.digest, content_span.c.ordinal))
    return [Span(*row) for row in rows]


def _chosen(
    connection: Connection,
    tenant: str | None,
    after: str,
    limit: int,
    choose: Callable[[Sequence[_Event]], set[tuple[str, str]]],
    shown: tuple[str, float],
    kind: str = "",
) -> tuple[list[ReviewRow], str | None]:
    rows: list[ReviewRow] = []
    for _ in range(_MOST_LOOKED_AT // _PAGE):
        page = _events(connection, tenant, after, kind)
        chosen = choose(page)
        for found in page:
            after = found.event_id
            if (found.tenant, found.event_id) in chosen:
                rows.append(_row(connection, found, *shown))
                if len(rows) == limit:
                    return rows, after
        if len(page) < _PAGE:
            return rows, None
    return rows, after


def _events(connection: Connection, tenant: str | None, after: str, kind: str) -> Sequence[_Event]:
    """A page of events that nobody has marked."""
    columns = (event.c.tenant, event.c.event_id, event.c.agent, event.c.trajectory_id, event.c.started_us, event.c.boundary)
    marked = exists().where(review_mark.c.tenant == event.c.tenant, review_mark.c.event_id == event.c.event_id)
    query = select(*columns).where(~marked).order_by(event.c.event_id.desc(), event.c.tenant).limit(_PAGE)
    query = query if tenant is None else query.where(event.c.tenant == tenant)
    query = query.where(event.c.kind == kind) if kind else query
    return connection.execute(query.where(event.c.event_id < after) if after else query).all()


def _with_uncertain(connection: Connection, tenant: str, page: Sequence[_Event]) -> set[str]:
    own = [one.event_id for one in page if one.boundary != MESSAGES]
    mine = (event_span.c.tenant == tenant, event_span.c.event_id.in_(own), event_span.c.score < CERTAIN)
    found = set(connection.execute(select(event_span.c.event_id).where(*mine)).scalars())
    owners = _owners(connection, tenant, [one.event_id for one in page])
    for chunk in _chunks(list(owners)):
        those = (content_span.c.tenant == tenant, content_span.c.digest.in_(chunk), content_span.c.score < CERTAIN)
        found.update(owners[digest] for digest in connection.execute(select(content_span.c.digest).where(*those)).scalars())
    return found


def _owners(connection: Connection, tenant: str, event_ids: Sequence[str]) -> dict[bytes, str]:
    """Content → the event that was first to store it, in the order of the contents.

    Asked apart from their spans: in a join a planner without statistics would begin with all spans of the tenant.
    """
    query = select(content.c.digest, content.c.owner).where(content.c.tenant == tenant, content.c.owner.in_(event_ids))
    return dict(sorted((row.digest, row.owner) for row in connection.execute(query)))


def _chunks(digests: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    return (digests[start : start + _CHUNK] for start in range(0, len(digests), _CHUNK))


def _row(connection: Connection, found: _Event, why: str, below: float) -> ReviewRow:
    spans = [span for span in spans_of(connection, found.tenant, found.event_id) if span.score < below]
    return ReviewRow(found.tenant, found.event_id, found.agent, found.trajectory_id, found.started_us, why, spans)
