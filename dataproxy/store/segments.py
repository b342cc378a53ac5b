"""Token segments read back as numpy arrays, as assembly wants them."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sqlalchemy import Connection, Row, select

from atdp.events import TokenRecord
from dataproxy.assemble.sequences import Segment
from dataproxy.store.compression import decompress
from dataproxy.store.schema import conversation_end, eligibility, token_segment


@dataclass(slots=True, frozen=True)
class StoredSegment:
    """A segment and what a lease must know of it. ``oldest_version`` is the least index among its tokens.

    ``reason`` is admission's: "eligible", or why not.
    """

    segment: Segment
    temperature: float
    tokenizer: str
    oldest_version: int
    reason: str


def segments_of(connection: Connection, tenant: str, trajectory_ids: Sequence[str]) -> dict[str, list[StoredSegment]]:
    """Trajectory → its segments, in the order of their calls."""
    found: dict[str, list[StoredSegment]] = defaultdict(list)
    same = (eligibility.c.tenant == token_segment.c.tenant) & (eligibility.c.event_id == token_segment.c.event_id)
    joined = token_segment.outerjoin(eligibility, same & (eligibility.c.choice == token_segment.c.choice))
    same = (conversation_end.c.tenant == token_segment.c.tenant) & (conversation_end.c.event_id == token_segment.c.event_id)
    joined = joined.outerjoin(conversation_end, same & (conversation_end.c.choice == token_segment.c.choice))
    for start in range(0, len(trajectory_ids), 200):
        chunk = trajectory_ids[start : start + 200]
        query = select(token_segment, eligibility.c.eligible, eligibility.c.reason, conversation_end.c.num_extended)
        query = query.select_from(joined)
        query = query.where(token_segment.c.tenant == tenant, token_segment.c.trajectory_id.in_(chunk))
        rows = connection.execute(query).all()  # sorted here: for their order SQLite would go through all of the tenant
        for row in sorted(rows, key=lambda row: (row.event_id, row.choice)):
            found[row.trajectory_id].append(_segment(row))
    return found


def token_records(connection: Connection, tenant: str, event_id: str) -> list[TokenRecord]:
    """The masked tokens of one event, by choice."""
    query = select(token_segment).where(token_segment.c.tenant == tenant, token_segment.c.event_id == event_id)
    return [
        TokenRecord(
            choice=row.choice,
            prompt_ids=decompress(row.prompt_ids),
            output_ids=decompress(row.output_ids),
            logprobs=decompress(row.logprobs),
            versions=decompress(row.versions),
            prompt_altered=decompress(row.prompt_altered),
            output_altered=decompress(row.output_altered),
            finish_reason=row.finish_reason,
            tokenizer=row.tokenizer,
        )
        for row in connection.execute(query.order_by(token_segment.c.choice))
    ]


def _segment(row: Row[tuple[object, ...]]) -> StoredSegment:
    versions = np.frombuffer(decompress(row.versions), "<i4")
    segment = Segment(
        event_id=row.event_id,
        choice=row.choice,
        parent=(row.parent_event, row.parent_choice) if row.parent_event is not None else None,
        trainable=bool(row.eligible),
        prompt_ids=np.frombuffer(decompress(row.prompt_ids), "<i4"),
        output_ids=np.frombuffer(decompress(row.output_ids), "<i4"),
        logprobs=np.frombuffer(decompress(row.logprobs), "<f4"),
        versions=versions,
        prompt_altered=np.frombuffer(decompress(row.prompt_altered), np.uint8),
        output_altered=np.frombuffer(decompress(row.output_altered), np.uint8),
        truncated=row.finish_reason == "length",
        extended=bool(row.num_extended),
    )
    oldest = int(versions.min(initial=1 << 30))
    return StoredSegment(segment, row.temperature, row.tokenizer, oldest, row.reason or "not_eligible")
