"""One trajectory as a reviewer looks at it: a page of its events, its rewards, what was decided, and who learned from it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, select

from atdp.events import Event
from atdp.rewards import effective_reward
from dataproxy.errors import NotFound
from dataproxy.store.reading import read_events
from dataproxy.store.rewards import rewards_of
from dataproxy.store.schema import eligibility, erasure, event, reward, token_segment, tombstone, training_use, trajectory

_MOST_ROWS = 500


@dataclass(slots=True, frozen=True)
class Review:
    """``trajectory``, ``rewards``, ``decisions`` and ``uses`` are rows of their tables; ``next_from``: the ``seq`` to go on from.

    ``tokens`` maps an event to its choices that have tokens, each to (how many redaction altered, how many there are with the
    prompt's). ``reward`` is the effective one now, None without any. ``erasures`` maps an event whose content was erased to the row
    of the erasure.
    """

    trajectory: Row[Any]
    events: list[Event]
    next_from: int | None
    rewards: list[Row[Any]]
    reward: float | None
    decisions: dict[str, list[Row[Any]]]
    tokens: dict[str, dict[int, tuple[int, int]]]
    uses: list[Row[Any]]
    erasures: dict[str, Row[Any]]


def review_of(connection: Connection, tenant: str | None, trajectory_id: str, start: int, limit: int) -> Review:
    """The trajectory with up to ``limit`` events from ``seq`` ``start`` on; ``tenant`` None: anybody's.

    Raises:
        NotFound: this tenant has none of that id.
    """
    named = select(trajectory).where(trajectory.c.trajectory_id == trajectory_id).order_by(trajectory.c.tenant)
    row = connection.execute(named if tenant is None else named.where(trajectory.c.tenant == tenant)).first()
    if row is None:
        raise NotFound(f"no trajectory {trajectory_id}")
    mine = (event.c.tenant == row.tenant, event.c.trajectory_id == trajectory_id)
    page = select(event).where(*mine, event.c.seq >= start).order_by(event.c.seq, event.c.position).limit(limit + 1)
    events = [item for _, item in read_events(connection, page)]
    next_from = events[limit].seq if len(events) > limit and events[limit].seq > start else None
    events = events[:limit]
    shown = [item.event_id for item in events]
    decisions: dict[str, list[Row[Any]]] = {}
    where = (eligibility.c.tenant == row.tenant, eligibility.c.event_id.in_(shown))
    for one in connection.execute(select(eligibility).where(*where).order_by(eligibility.c.choice)):
        decisions.setdefault(one.event_id, []).append(one)
    sizes = [token_segment.c[name] for name in ("event_id", "choice", "num_altered", "num_prompt", "num_output")]
    where = (token_segment.c.tenant == row.tenant, token_segment.c.event_id.in_(shown))
    tokens: dict[str, dict[int, tuple[int, int]]] = {}
    for one in connection.execute(select(*sizes).where(*where)):
        tokens.setdefault(one.event_id, {})[one.choice] = (one.num_altered, one.num_prompt + one.num_output)
    of_it = (reward.c.tenant == row.tenant, reward.c.trajectory_id == trajectory_id)
    given = select(reward).where(*of_it).order_by(reward.c.received_us, reward.c.reward_id).limit(_MOST_ROWS)
    used = (training_use.c.tenant == row.tenant, training_use.c.trajectory_id == trajectory_id)
    return Review(
        row,
        events,
        next_from,
        list(connection.execute(given)),
        effective_reward(rewards_of(connection, row.tenant, [trajectory_id]).get(trajectory_id, [])),
        decisions,
        tokens,
        list(connection.execute(select(training_use).where(*used).order_by(training_use.c.used_us).limit(_MOST_ROWS))),
        _erasures(connection, row.tenant, shown),
    )


def _erasures(connection: Connection, tenant: str, event_ids: Sequence[str]) -> dict[str, Row[Any]]:
    of = (tombstone.c.tenant == tenant, tombstone.c.kind == "event", tombstone.c.row_key.in_(event_ids))
    same = (erasure.c.tenant == tombstone.c.tenant) & (erasure.c.erasure_id == tombstone.c.erasure_id)
    query = select(tombstone.c.row_key, erasure).join_from(tombstone, erasure, same).where(*of)
    return {row.row_key: row for row in connection.execute(query)}
