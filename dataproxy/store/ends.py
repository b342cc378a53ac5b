"""Stored answers looked up by what is no conversation: the exact ids they end with, or the event that an agent names."""

from collections.abc import Iterator, Mapping, Set

from sqlalchemy import Connection, and_, func, select

from dataproxy.assemble.calls import End
from dataproxy.store.schema import conversation_end, event, token_segment

_CHUNK = 500


def read_token_ends(connection: Connection, wanted: Mapping[tuple[str, str], Set[bytes]]) -> Iterator[tuple[str, str, bytes, End]]:
    """(tenant, agent, digest, end) of the stored choices whose ids, prompt and output, have a wanted digest."""
    same_event = and_(event.c.tenant == token_segment.c.tenant, event.c.event_id == token_segment.c.event_id)
    same_choice = and_(
        conversation_end.c.tenant == token_segment.c.tenant,
        conversation_end.c.event_id == token_segment.c.event_id,
        conversation_end.c.choice == token_segment.c.choice,
    )
    columns = (
        token_segment.c.event_id,
        token_segment.c.choice,
        token_segment.c.trajectory_id,
        token_segment.c.full_digest,
        event.c.session_id,
        func.coalesce(conversation_end.c.num_extended, 0).label("num_extended"),
    )
    query = select(*columns).select_from(token_segment.join(event, same_event).outerjoin(conversation_end, same_choice))
    for (tenant, agent), digests in wanted.items():
        ordered = sorted(digests)
        for start in range(0, len(ordered), _CHUNK):
            of_digest = token_segment.c.full_digest.in_(ordered[start : start + _CHUNK])
            for row in connection.execute(query.where(token_segment.c.tenant == tenant, event.c.agent == agent, of_digest)):
                end = End(row.event_id, row.choice, row.session_id, row.trajectory_id, row.num_extended, -1)
                yield tenant, agent, row.full_digest, end


def read_first_end(connection: Connection, tenant: str, agent: str, event_id: str) -> End | None:
    """The first answer of ``event_id``, if it is this agent's."""
    of_event = (conversation_end.c.tenant == tenant, conversation_end.c.agent == agent, conversation_end.c.event_id == event_id)
    row = connection.execute(select(conversation_end).where(*of_event).order_by(conversation_end.c.choice).limit(1)).first()
    return End(row.event_id, row.choice, row.session_id, row.trajectory_id, row.num_extended, -1) if row is not None else None
