"""What a list of trajectories says of each: models, decisions, redacted values, reward, and how it began. A few queries a page."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, select

from atdp.rewards import effective_reward
from atdp.versions import version_name
from dataproxy.client.trajectory_types import TrajectoryRow
from dataproxy.store.compression import decompress
from dataproxy.store.known import MESSAGES
from dataproxy.store.reading import named_contents
from dataproxy.store.rewards import rewards_of
from dataproxy.store.schema import content, content_span, eligibility, event, event_span
from dataproxy.store.search import strings_in

_Key = tuple[str, str]
_CHUNK = 400
_OPENING = 140


def by_tenant(keys: Iterable[_Key]) -> Iterator[tuple[str, list[str]]]:
    """Each tenant with its trajectories, some hundred at a time."""
    grouped: dict[str, list[str]] = defaultdict(list)
    for tenant, trajectory_id in keys:
        grouped[tenant].append(trajectory_id)
    for tenant, ids in grouped.items():
        for start in range(0, len(ids), _CHUNK):
            yield tenant, ids[start : start + _CHUNK]


def rows_of(connection: Connection, found: Sequence[Row[Any]]) -> list[TrajectoryRow]:
    """``found`` rows of ``trajectory`` as a list shows them, in their order."""
    keys = [(row.tenant, row.trajectory_id) for row in found]
    kinds, openings = kinds_of(connection, keys), openings_of(connection, keys)
    models: dict[_Key, set[str]] = defaultdict(set)
    errors: Counter[_Key] = Counter()
    reasons: dict[_Key, Counter[str]] = defaultdict(Counter)
    rewards: dict[_Key, float | None] = {}
    for owner, ids in by_tenant(keys):
        rewards |= {(owner, one): effective_reward(given) for one, given in rewards_of(connection, owner, ids).items()}
        mine = (event.c.tenant == owner, event.c.trajectory_id.in_(ids))
        for row in connection.execute(select(event.c.trajectory_id, event.c.model, event.c.status).where(*mine)):
            models[owner, row.trajectory_id].update({row.model} - {""})
            errors[owner, row.trajectory_id] += row.status is not None and row.status >= 400
        for trajectory_id, reason in reasons_of(connection, owner, ids):
            reasons[owner, trajectory_id][reason] += 1
    return [
        TrajectoryRow(
            row.tenant,
            row.trajectory_id,
            row.agent,
            row.session_id,
            row.started_us,
            row.last_us,
            row.num_events,
            rewards.get(key),
            version_name(row.last_version) if row.last_version >= 0 else None,
            sorted(models[key]),
            dict(reasons[key].most_common()),
            dict(kinds[key].most_common()),
            row.times_trained,
            errors[key],
            openings.get(key, ""),
        )
        for key, row in zip(keys, found, strict=True)
    ]


def reasons_of(connection: Connection, owner: str, ids: Sequence[str]) -> Iterator[tuple[str, str]]:
    """(trajectory, reason) of each decision about ``ids`` of ``owner``.

    In two steps, not in a join: a planner without statistics would begin with all decisions of the tenant.
    """
    query = select(event.c.event_id, event.c.trajectory_id).where(event.c.tenant == owner, event.c.trajectory_id.in_(ids))
    whose = {row.event_id: row.trajectory_id for row in connection.execute(query)}
    for chunk in chunks_of(list(whose)):
        decided = select(eligibility.c.event_id, eligibility.c.reason)
        for row in connection.execute(decided.where(eligibility.c.tenant == owner, eligibility.c.event_id.in_(chunk))):
            yield whose[row.event_id], row.reason


def kinds_of(connection: Connection, keys: Sequence[_Key]) -> dict[_Key, Counter[str]]:
    """Trajectory → its redacted values by kind; a text that stands in several of its events counts once."""
    found: dict[_Key, Counter[str]] = {key: Counter() for key in keys}
    for owner, ids in by_tenant(keys):
        holders: dict[bytes, set[str]] = defaultdict(set)
        own: dict[str, str] = {}
        query = select(event.c.event_id, event.c.trajectory_id, event.c.boundary, event.c.body)
        for row in connection.execute(query.where(event.c.tenant == owner, event.c.trajectory_id.in_(ids))):
            if row.boundary != MESSAGES:
                own[row.event_id] = row.trajectory_id
            for digest, _ in named_contents(_named(row.body)):
                holders[digest].add(row.trajectory_id)
        for digests in chunks_of(list(holders)):
            spans = select(content_span.c.digest, content_span.c.kind)
            for span in connection.execute(spans.where(content_span.c.tenant == owner, content_span.c.digest.in_(digests))):
                for trajectory_id in holders[span.digest]:
                    found[owner, trajectory_id][span.kind] += 1
        for events in chunks_of(list(own)):
            outside = select(event_span.c.event_id, event_span.c.kind)
            for span in connection.execute(outside.where(event_span.c.tenant == owner, event_span.c.event_id.in_(events))):
                found[owner, own[span.event_id]][span.kind] += 1
    return found


def openings_of(connection: Connection, keys: Sequence[_Key]) -> dict[_Key, str]:
    """Trajectory → the beginning of the first thing that a user said in it."""
    found: dict[_Key, str] = {}
    for owner, ids in by_tenant(keys):
        names: dict[str, list[bytes]] = {}
        query = select(event.c.trajectory_id, event.c.kind, event.c.body)
        query = query.where(event.c.tenant == owner, event.c.trajectory_id.in_(ids))
        for row in connection.execute(query.order_by(event.c.seq, event.c.position)):
            if row.kind == "model_call" and row.trajectory_id not in names:
                names[row.trajectory_id] = [bytes.fromhex(name) for name in _named(row.body).o.get("messages", [])[:4]]
        said: dict[bytes, str | None] = {}
        for digests in chunks_of(sorted({digest for mine in names.values() for digest in mine})):
            where = (content.c.tenant == owner, content.c.digest.in_(digests))
            for one in connection.execute(select(content.c.digest, content.c.data).where(*where)):
                said[one.digest] = _said_by_user(msgspec.json.decode(decompress(one.data)))
        for trajectory_id, mine in names.items():
            found[owner, trajectory_id] = next((text for digest in mine if (text := said.get(digest))), "")
    return found


class _Named(msgspec.Struct):
    """Of an event's body what names contents; the rest is not even decoded."""

    o: dict[str, Any] = {}
    a: dict[str, Any] = {}


def _named(body: bytes) -> _Named:
    return msgspec.json.decode(decompress(body), type=_Named) if body else _Named()


def _said_by_user(message: Any) -> str | None:
    if not isinstance(message, dict) or message.get("role") != "user":
        return None
    return " ".join(next(strings_in(message.get("content")), "")[: 4 * _OPENING].split())[:_OPENING]


def chunks_of(items: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """``items``, some hundred at a time."""
    return (items[start : start + _CHUNK] for start in range(0, len(items), _CHUNK))
