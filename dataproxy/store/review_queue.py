"""What reviewers should look at: uncertain spans, and samples that a keyed digest draws. Nothing is queued: the store is asked.

What was marked is not shown again. A page looks at a bounded number of events.
"""

from collections.abc import Callable, Sequence

from sqlalchemy import ColumnElement, Connection, Row, Select, and_, exists, select, union

from atdp.events import Span
from dataproxy.client.vault_types import ReviewRow
from dataproxy.store.schema import content, content_span, event, event_span, review_mark

CERTAIN = 0.85
"""Spans of a lower score wait for somebody to look at them: names, addresses of networks, numbers known by a word beside them."""
SAMPLED_PER_MILLE = 20
_MOST_LOOKED_AT = 5000
_COLUMNS = ("kind", "detector", "score", "path", "start", "end", "surrogate")


def uncertain(connection: Connection, tenant: str | None, after: str, limit: int) -> tuple[list[ReviewRow], str | None]:
    """Up to ``limit`` events with uncertain spans before event ``after``, newest first, and the cursor of the next page."""
    in_events = select(event_span.c.tenant, event_span.c.event_id).where(event_span.c.score < CERTAIN)
    same = and_(content.c.tenant == content_span.c.tenant, content.c.digest == content_span.c.digest)
    in_contents = select(content.c.tenant, content.c.owner.label("event_id")).join(content_span, same)
    in_contents = in_contents.where(content_span.c.score < CERTAIN, content.c.owner != "")
    named = union(in_events, in_contents).subquery()
    here = and_(named.c.tenant == event.c.tenant, named.c.event_id == event.c.event_id)
    query = _events(tenant, after).join(named, here).where(~_marked()).limit(limit)
    rows = [_row(connection, found, "low_confidence", CERTAIN) for found in connection.execute(query)]
    return rows, rows[-1].event_id if len(rows) == limit else None


def samples(
    connection: Connection, tenant: str | None, after: str, limit: int, draws: Callable[[str, str], int]
) -> tuple[list[ReviewRow], str | None]:
    """The same of samples of model calls; ``draws`` gives a number below 1000 for a tenant and event id."""
    query = _events(tenant, after).where(event.c.kind == "model_call", ~_marked()).limit(_MOST_LOOKED_AT)
    rows, last, num = list[ReviewRow](), after, 0
    for found in connection.execute(query).all():
        last, num = found.event_id, num + 1
        if draws(found.tenant, found.event_id) < SAMPLED_PER_MILLE:
            rows.append(_row(connection, found, "sample", 2.0))
            if len(rows) == limit:
                return rows, last
    return rows, last if num == _MOST_LOOKED_AT else None


def _events(tenant: str | None, after: str) -> Select[tuple[str, str, str, str, int]]:
    columns = (event.c.tenant, event.c.event_id, event.c.agent, event.c.trajectory_id, event.c.started_us)
    query = select(*columns).order_by(event.c.event_id.desc(), event.c.tenant)
    query = query if tenant is None else query.where(event.c.tenant == tenant)
    return query.where(event.c.event_id < after) if after else query


def _marked() -> ColumnElement[bool]:
    return exists().where(review_mark.c.tenant == event.c.tenant, review_mark.c.event_id == event.c.event_id)


def _row(connection: Connection, found: Row[tuple[str, str, str, str, int]], why: str, below: float) -> ReviewRow:
    spans = [span for span in spans_of(connection, found.tenant, found.event_id) if span.score < below]
    return ReviewRow(found.tenant, found.event_id, found.agent, found.trajectory_id, found.started_us, why, spans)


def spans_of(connection: Connection, tenant: str, event_id: str) -> Sequence[Span]:
    """The spans of an event and of the contents that it was first to store; those of a content begin at the content."""
    mine = (event_span.c.tenant == tenant, event_span.c.event_id == event_id)
    own = select(*(event_span.c[name] for name in _COLUMNS)).where(*mine).order_by(event_span.c.ordinal)
    same = and_(content.c.tenant == content_span.c.tenant, content.c.digest == content_span.c.digest)
    of_it = (content.c.tenant == tenant, content.c.owner == event_id)
    stored = select(*(content_span.c[name] for name in _COLUMNS)).select_from(content_span.join(content, same)).where(*of_it)
    rows = [*connection.execute(own), *connection.execute(stored.order_by(content_span.c.digest, content_span.c.ordinal))]
    return [Span(*row) for row in rows]
