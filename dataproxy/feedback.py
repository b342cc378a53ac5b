"""Feedback becomes rewards: the target found inside the tenant, free text redacted, idempotent, kept even before its exchange.

Called inside the API's write transaction. A forged id, an unknown one and another tenant's all look the same: not found.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import get_args

import msgspec
from sqlalchemy import Connection, select

from atdp.ids import PREFIXES, event_id_in, new_event_id, verify_completion_id
from atdp.rewards import Source, turn_id
from dataproxy.client.types import Feedback, FeedbackReceipt
from dataproxy.digests import KeyedDigests
from dataproxy.errors import NotFound, Refused
from dataproxy.store.pending import add_pending, find_pending
from dataproxy.store.rewards import RewardRow, find_by_idempotency, insert_reward, reward_exists
from dataproxy.store.schema import api_key, eligibility, event, session, trajectory

MAX_VALUE = 1_000_000
"""Beyond it squares and sums of rewards lose what the others say."""
MAX_TEXT = 65_536
"""Characters of a free text, before it is redacted."""
MAX_BATCH = 1_000


@dataclass(slots=True, frozen=True)
class Desk:
    """What taking feedback needs of one tenant; ``mac_secret`` is behind its completion ids."""

    tenant: str
    mac_secret: bytes
    digests: KeyedDigests


@dataclass(slots=True, frozen=True)
class _Target:
    kind: str
    target_id: str
    trajectory_id: str | None


def give_feedback(connection: Connection, desk: Desk, item: Feedback, key_id: str, now_us: int) -> FeedbackReceipt:
    """Store ``item`` (redacted by now), or keep it until its event is drained.

    Raises:
        NotFound: the target is no id of this tenant.
        Refused: nothing was said, or a field is out of its range.
    """
    _check(connection, desk.tenant, item)
    key = desk.digests.of(b"idempotency", item.idempotency_key.encode()).hex() if item.idempotency_key else None
    if key is not None and (receipt := _earlier(connection, desk.tenant, key)) is not None:
        return receipt
    target = _resolve(connection, desk, item.target)
    if item.choice is not None:
        target = _turn(connection, desk.tenant, target, item.choice)
    row = RewardRow(
        tenant=desk.tenant,
        reward_id=f"rw-{new_event_id()}",
        target_kind=target.kind,
        target_id=target.target_id,
        trajectory_id=target.trajectory_id or "",
        name=item.name,
        value=item.value,
        label=item.label,
        correction=item.correction,
        source=item.source,
        explanation=item.explanation,
        idempotency_key=key,
        supersedes=item.supersedes,
        key_id=key_id,
        received_us=now_us,
    )
    if target.trajectory_id is None:
        add_pending(connection, row)
        return _receipt(row, pending=True)
    insert_reward(connection, row)
    return _receipt(row, pending=False)


def _check(connection: Connection, tenant: str, item: Feedback) -> None:
    if item.value is None and item.label is None and item.correction is None:
        raise Refused("say something: give `value` (a number), `label` or `correction`")
    if item.value is not None and not abs(item.value) <= MAX_VALUE:
        raise Refused(f"`value` must be a number from -{MAX_VALUE:,} to {MAX_VALUE:,}")
    if item.source not in get_args(Source):
        raise Refused(f"`source` must be one of {', '.join(get_args(Source))}")
    if not item.name or len(item.name) > 64 or not item.name.isprintable():
        raise Refused("`name` must have 1 to 64 printable characters")
    if item.supersedes is not None and not reward_exists(connection, tenant, item.supersedes):
        raise Refused("`supersedes` must be the reward_id of an earlier reward")


def _earlier(connection: Connection, tenant: str, key: str) -> FeedbackReceipt | None:
    if (stored := find_by_idempotency(connection, tenant, key)) is not None:
        return _receipt(stored, pending=False)
    waiting = find_pending(connection, tenant, key)
    return _receipt(waiting, pending=True) if waiting is not None else None


def _receipt(row: RewardRow, pending: bool) -> FeedbackReceipt:
    return FeedbackReceipt(row.reward_id, row.target_kind, row.target_id, "pending" if pending else "stored")


def _resolve(connection: Connection, desk: Desk, target: str) -> _Target:
    """The target inside the tenant. A completion id that proves itself may be of an event that is still on its way."""
    if target.startswith(PREFIXES):
        event_id = verify_completion_id(desk.mac_secret, desk.tenant, target)
        if event_id is None:
            raise NotFound("no such completion; send the `id` of an answer as you received it")
        return _Target("event", event_id, _trajectory_of_event(connection, desk.tenant, event_id))
    if (found := _trajectory_of_event(connection, desk.tenant, target)) is not None:
        return _Target("event", target, found)
    where = (trajectory.c.tenant == desk.tenant, trajectory.c.trajectory_id == target)
    if connection.execute(select(trajectory.c.trajectory_id).where(*where)).first() is not None:
        return _Target("trajectory", target, target)
    session_id = _session(connection, desk, target)
    return _Target("session", session_id, _latest_trajectory(connection, desk.tenant, session_id))


def _turn(connection: Connection, tenant: str, target: _Target, choice: int) -> _Target:
    """One answer of a call; whether a call that is on its way will have it nobody knows yet."""
    if target.kind != "event" or choice < 0:
        raise Refused("`choice` is the index of one answer of a call: target that call's completion or event id")
    where = (eligibility.c.tenant == tenant, eligibility.c.event_id == target.target_id, eligibility.c.choice == choice)
    if target.trajectory_id is not None and connection.execute(select(eligibility.c.choice).where(*where)).first() is None:
        raise NotFound(f"this call has no answer number {choice}; the first is 0")
    return _Target("turn", turn_id(target.target_id, choice), target.trajectory_id)


def _trajectory_of_event(connection: Connection, tenant: str, event_id: str) -> str | None:
    where = (event.c.tenant == tenant, event.c.event_id == event_id, event.c.trajectory_id != "")
    return connection.execute(select(event.c.trajectory_id).where(*where)).scalar()


def _session(connection: Connection, desk: Desk, name: str) -> str:
    """A session by its id, by the name its agent gave it, or by the inferred name of an answer if only one session has it."""
    digest = f"digest-{desk.digests.of(b'session', name.encode()).hex()}"
    where = (session.c.tenant == desk.tenant, session.c.session_id.in_((name, digest)))
    found = connection.execute(select(session.c.session_id).where(*where)).scalar()
    if found is not None:
        return str(found)
    routed = (session.c.tenant == desk.tenant, session.c.routing_name == name)
    several = list(connection.execute(select(session.c.session_id).where(*routed).limit(2)).scalars())
    if len(several) > 1:
        raise Refused("several conversations began alike and share this session name; reward the `id` of an answer instead")
    if not name or not several:
        raise NotFound("no such completion, event, trajectory or session")
    return str(several[0])


def _latest_trajectory(connection: Connection, tenant: str, session_id: str) -> str:
    where = (trajectory.c.tenant == tenant, trajectory.c.session_id == session_id)
    query = select(trajectory.c.trajectory_id).where(*where).order_by(trajectory.c.last_us.desc()).limit(1)
    return str(connection.execute(query).scalar_one())


def tenant_of_target(connection: Connection, mac_secret: bytes, target: str) -> str | None:
    """The tenant of a target, for an operator, who belongs to none: stored, or a completion id that proves itself."""
    event_id = event_id_in(target) or target
    for table, column, name in (
        (event, "event_id", event_id),
        (trajectory, "trajectory_id", target),
        (session, "session_id", target),
    ):
        found = connection.execute(select(table.c.tenant).where(table.c[column] == name)).scalars().all()
        if len(found) == 1:
            return str(found[0])
    names = connection.execute(select(api_key.c.tenant).distinct()).scalars()  # whoever was answered had a key
    return next((name for name in names if verify_completion_id(mac_secret, name, target)), None)


def redact_feedback(item: Feedback, redact: Callable[[str], str]) -> Feedback:
    """``item`` with its free texts redacted; target and idempotency key are only ever compared or digested."""
    texts = {"name": item.name, "label": item.label, "correction": item.correction, "explanation": item.explanation}
    return msgspec.structs.replace(item, **{name: redact(text) for name, text in texts.items() if text})


def decode_feedback(body: bytes) -> Feedback:
    """The feedback in a request's body.

    Raises:
        Refused: with what is wrong.
    """
    try:
        item = msgspec.json.decode(body, type=Feedback)
    except msgspec.DecodeError as error:
        raise Refused(f"the body is not feedback: {error}; send {{target, value}} as JSON") from error
    check_length(item)
    return item


def decode_batch(body: bytes) -> list[Feedback]:
    """The pieces of feedback in a request's body, which is a JSON array; their lengths are still to be checked.

    Raises:
        Refused: it is none, or too long.
    """
    try:
        items = msgspec.json.decode(body, type=list[Feedback])
    except msgspec.DecodeError as error:
        raise Refused(f"the body is no list of feedback: {error}; send [{{target, value}}, …] as JSON") from error
    if not 1 <= len(items) <= MAX_BATCH:
        raise Refused(f"a batch has at least one piece of feedback and at most {MAX_BATCH:,}; this one has {len(items):,}")
    return items


def check_length(item: Feedback) -> None:
    """Let only texts pass that can be redacted in time.

    Raises:
        Refused: one is too long.
    """
    texts = {"label": item.label, "correction": item.correction, "explanation": item.explanation, "target": item.target}
    for name, text in texts.items():
        if text is not None and len(text) > MAX_TEXT:
            raise Refused(f"`{name}` must have at most {MAX_TEXT:,} characters")
