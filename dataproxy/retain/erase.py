"""Erasure: the bodies, tokens, texts and salts of what belongs to a target go, in the transaction that writes the erasure's leaf.

So does what the vault keeps of it.

What stays: rows without content, decisions, rewards' values, and the leaves, which say nothing any more. The tree verifies on, with
a tombstone in every place. What other trajectories refer to stays for them, with a leaf of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Connection, Table, and_, delete, exists, func, or_, select, update

from atdp.events import Event
from atdp.ids import new_event_id
from dataproxy.client.review_types import Erasure, LegalHold
from dataproxy.errors import Refused
from dataproxy.ledger.erased import erasure_contents
from dataproxy.ledger.leaf import Leaf
from dataproxy.ledger.log import append, lock_logs, read_head
from dataproxy.ledger.stored import stored_contents
from dataproxy.retain.holds import holds_on, list_holds
from dataproxy.retain.references import contents_of, shared_contents
from dataproxy.retain.targets import Belongings, Target, belongings, chunks
from dataproxy.store.dialect import insert_all
from dataproxy.store.events import StoredEvent, insert_events, next_position
from dataproxy.store.rewards import RewardRow
from dataproxy.store.schema import (
    content,
    content_span,
    conversation_end,
    dead_letter,
    erasure,
    event,
    event_span,
    judgement,
    lease_item,
    log_leaf,
    log_salt,
    pending_reward,
    reward,
    token_segment,
    tombstone,
    training_use,
    trajectory,
    vault_segment,
)
from dataproxy.store.views import forget_sessions
from dataproxy.vault.keys import shred

_DIGEST_HEX = 32


@dataclass(slots=True, frozen=True)
class Plan:
    """What an erasure would do. ``shared`` of ``contents`` stay; ``seen`` is the position up to which that was looked at."""

    target: Target
    found: Belongings
    contents: set[bytes]
    shared: set[bytes]
    seen: int
    holds: list[LegalHold]


def plan_erasure(connection: Connection, target: Target) -> Plan:
    """Look, and change nothing."""
    found = belongings(connection, target)
    contents = contents_of(connection, target.tenant, found.events)
    shared, seen = shared_contents(connection, target.tenant, contents, set(found.events))
    holds = holds_on(list_holds(connection, target.tenant), target.tenant, found)
    return Plan(target, found, contents, shared, seen, holds)


def foresee(connection: Connection, plan: Plan, reason: str) -> Erasure:
    """What ``erase`` would answer.

    Raises:
        Refused: a legal hold is on it.
    """
    _refuse_holds(plan.holds)
    return msgspec.structs.replace(_outcome(connection, plan, "", reason, 0), dry_run=True)


def erase(connection: Connection, plan: Plan, reason: str, key_id: str, now_us: int) -> Erasure:
    """Erase what ``plan`` found and what came to it since, and put that on record. ``reason`` is redacted.

    Raises:
        Refused: a legal hold is on it, or nothing is left of it.
    """
    tenant = plan.target.tenant
    lock_logs(connection, [tenant])
    plan = _again(connection, plan)
    _refuse_holds(plan.holds)
    if not plan.found.events:
        raise Refused("all of it was erased before")
    outcome = _outcome(connection, plan, new_event_id(), reason, now_us)
    row: dict[str, Any] = {"tenant": tenant, "erasure_id": outcome.erasure_id, "scope": outcome.scope, "target": outcome.target}
    row |= {"reason": reason, "key_id": key_id, "erased_us": now_us, "outcome": msgspec.json.encode(outcome).decode()}
    connection.execute(erasure.insert().values(row))
    gone = plan.contents - plan.shared
    _bury(connection, plan, gone, outcome.erasure_id)
    _blank(connection, plan)
    _delete_contents(connection, tenant, gone)
    kept = _adopt_contents(connection, plan, outcome.erasure_id)
    _write_event(connection, outcome, key_id)
    head = read_head(connection, tenant)
    base = head.base_position if head is not None else 0
    proven = erasure_contents(connection, tenant, [outcome.erasure_id], base)[outcome.erasure_id]
    append(connection, [*kept, Leaf(tenant, "erasure", outcome.erasure_id, "", proven)])
    return outcome


def _again(connection: Connection, plan: Plan) -> Plan:
    """The plan as of now: what is new belongs to it, and what others have named since stays."""
    tenant, found = plan.target.tenant, belongings(connection, plan.target)
    contents = contents_of(connection, tenant, found.events)
    fresh = contents - plan.contents
    since, seen = shared_contents(connection, tenant, contents, set(found.events), plan.seen)
    late = shared_contents(connection, tenant, fresh, set(found.events))[0] if fresh else set()
    holds = holds_on(list_holds(connection, tenant), tenant, found)
    return Plan(plan.target, found, contents, (plan.shared & contents) | since | late, seen, holds)


def _refuse_holds(holds: Sequence[LegalHold]) -> None:
    if holds:
        named = "; ".join(f"{hold.hold_id} on {hold.scope} {hold.target}: {hold.reason}" for hold in holds)
        raise Refused(f"a legal hold is on it ({named}); release it first, under Holds or by headrace audit hold release")


def _outcome(connection: Connection, plan: Plan, erasure_id: str, reason: str, now_us: int) -> Erasure:
    tenant, ids = plan.target.tenant, plan.found.trajectories
    uses = (training_use.c.tenant == tenant, training_use.c.trajectory_id)
    raw = (and_(uses[0], training_use.c.vaulted.is_(True)), training_use.c.trajectory_id)
    held = (and_(lease_item.c.tenant == tenant, lease_item.c.held.is_(True)), lease_item.c.trajectory_id)
    return Erasure(
        erasure_id=erasure_id,
        tenant=tenant,
        scope=plan.target.scope,
        target=plan.target.name,
        reason=reason,
        erased_us=now_us,
        trajectories=ids,
        events=len(plan.found.events),
        token_segments=len(_column(connection, token_segment.c.choice, _of(token_segment, tenant), plan.found.events)),
        contents_erased=len(plan.contents - plan.shared),
        contents_kept=len(plan.shared),
        rewards_blanked=len(_spoken_rewards(connection, plan)),
        trained_versions=sorted(set(_column(connection, training_use.c.version, uses, ids))),
        vaulted_versions=sorted(set(_column(connection, training_use.c.version, raw, ids))),
        leased=sorted(set(_column(connection, lease_item.c.trajectory_id, held, ids))),
    )


def _of(table: Table, tenant: str) -> tuple[Any, Any]:
    return table.c.tenant == tenant, table.c.event_id


def _column(connection: Connection, column: Any, where: tuple[Any, Any], ids: Sequence[str]) -> list[Any]:
    found: list[Any] = []
    for chunk in chunks(ids):
        found += connection.execute(select(column).where(where[0], where[1].in_(chunk))).scalars()
    return found


def _spoken_rewards(connection: Connection, plan: Plan) -> list[str]:
    """Rewards of the trajectories that hold free text and are not blanked yet."""
    spoken = or_(reward.c.label.is_not(None), reward.c.correction.is_not(None), reward.c.explanation.is_not(None))
    mine = (and_(reward.c.tenant == plan.target.tenant, spoken), reward.c.trajectory_id)
    return _column(connection, reward.c.reward_id, mine, plan.found.trajectories)


def _bury(connection: Connection, plan: Plan, gone: set[bytes], erasure_id: str) -> None:
    """A tombstone for every leaf that loses what it committed to; its salt goes."""
    tenant = plan.target.tenant
    named = {"event": plan.found.events, "reward": _spoken_rewards(connection, plan), "content": sorted(d.hex() for d in gone)}
    for kind, keys in named.items():
        column = func.substr(log_leaf.c.row_key, 1, _DIGEST_HEX) if kind == "content" else log_leaf.c.row_key
        for chunk in chunks(keys):
            where = (log_leaf.c.tenant == tenant, log_leaf.c.kind == kind, column.in_(chunk), ~_buried())
            leaves = connection.execute(select(log_leaf.c.row_key, log_leaf.c.leaf_index).where(*where)).all()
            stones = [{"tenant": tenant, "kind": kind, "row_key": r.row_key, "leaf_index": r.leaf_index} for r in leaves]
            insert_all(connection, tombstone, [stone | {"erasure_id": erasure_id} for stone in stones])
            salts = (log_salt.c.tenant == tenant, log_salt.c.leaf_index.in_([r.leaf_index for r in leaves]))
            connection.execute(delete(log_salt).where(*salts))


def _buried() -> ColumnElement[bool]:
    same = (tombstone.c.tenant == log_leaf.c.tenant, tombstone.c.kind == log_leaf.c.kind)
    return exists().where(*same, tombstone.c.row_key == log_leaf.c.row_key)


def _blank(connection: Connection, plan: Plan) -> None:
    tenant = plan.target.tenant
    for chunk in chunks(_spoken_rewards(connection, plan)):
        where = (reward.c.tenant == tenant, reward.c.reward_id.in_(chunk))
        connection.execute(update(reward).where(*where).values(label=None, correction=None, explanation=None))
    for chunk in chunks(plan.found.events):
        where = (event.c.tenant == tenant, event.c.event_id.in_(chunk))
        connection.execute(update(event).where(*where).values(subject="", request_digest=None, body=b""))
        for table in (event_span, token_segment, vault_segment, conversation_end, pending_reward, judgement):
            connection.execute(delete(table).where(table.c.tenant == tenant, table.c.event_id.in_(chunk)))
    forget_sessions(connection, tenant, plan.found.sessions)
    shred(connection, tenant, plan.found.trajectories)
    _delete_dead_letters(connection, tenant, {*plan.found.events, *plan.found.trajectories, *plan.found.sessions})
    for chunk in chunks(plan.found.trajectories):
        where = (trajectory.c.tenant == tenant, trajectory.c.trajectory_id.in_(chunk))
        connection.execute(update(trajectory).where(*where).values(num_eligible=0, closed=True))


def _delete_dead_letters(connection: Connection, tenant: str, targets: set[str]) -> None:
    """Rewards that waited in vain for what is erased now."""
    where = (dead_letter.c.tenant == tenant, dead_letter.c.kind == "reward")
    for row in connection.execute(select(dead_letter.c.letter_id, dead_letter.c.body).where(*where)).all():
        if msgspec.msgpack.decode(row.body, type=RewardRow).target_id in targets:
            connection.execute(delete(dead_letter).where(*where, dead_letter.c.letter_id == row.letter_id))


def _delete_contents(connection: Connection, tenant: str, gone: set[bytes]) -> None:
    for chunk in chunks(sorted(gone)):
        for table in (content_span, content):
            connection.execute(delete(table).where(table.c.tenant == tenant, table.c.digest.in_(chunk)))


def _adopt_contents(connection: Connection, plan: Plan, erasure_id: str) -> list[Leaf]:
    """Contents that outlive the event which stored them get leaves of their own: one may be stored, and outlive, more than once."""
    tenant, orphans = plan.target.tenant, list[bytes]()
    for chunk in chunks(plan.found.events):
        mine = (content.c.tenant == tenant, content.c.owner.in_(chunk))
        orphans += connection.execute(select(content.c.digest).where(*mine)).scalars()
        connection.execute(update(content).where(*mine).values(owner=""))
    keys = sorted(f"{digest.hex()}/{erasure_id}" for digest in orphans)
    proven = stored_contents(connection, tenant, "content", keys, 0)
    return [Leaf(tenant, "content", key, "", proven[key]) for key in keys]


def _write_event(connection: Connection, outcome: Erasure, key_id: str) -> None:
    written = Event(
        event_id=outcome.erasure_id,
        tenant=outcome.tenant,
        agent="",
        kind="erasure",
        started_at=outcome.erased_us,
        ended_at=outcome.erased_us,
        boundary="api",
        a=msgspec.to_builtins(outcome),
        m={"key_id": key_id},
    )
    insert_events(connection, [(StoredEvent(event=written), None)], next_position(connection))
