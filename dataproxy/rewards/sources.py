"""Built-in sources: look at what was stored since the last look, reward what speaks for itself, let the rest wait for the judge.

Off the drain's path: a thread of its own reads events by position. The place reached is stored with what was found, in one
transaction, so that a kill loses nothing and gives nothing twice.
"""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sqlalchemy import Connection, select

from atdp.errors import InvalidEvent
from atdp.events import Event
from dataproxy.client.reward_types import Sources
from dataproxy.rewards.signals import is_correction, share_passed
from dataproxy.rewards.turns import new_messages, result_of, text_of
from dataproxy.store.agents import move_on, with_sources
from dataproxy.store.database import Database
from dataproxy.store.judgements import Waiting, ask_for
from dataproxy.store.reading import find_event
from dataproxy.store.rewards import RewardRow, find_by_idempotency, given_by_rule, insert_reward
from dataproxy.store.schema import event

logger = logging.getLogger(__name__)
_BATCH = 128
_KINDS = ("model_call", "tool_call")


@dataclass(slots=True, frozen=True)
class _Parent:
    event_id: str
    trajectory_id: str


@dataclass(slots=True, frozen=True)
class _Looked:
    """An event of the agent, and the model call that it follows."""

    event: Event
    parent: _Parent | None


def sweep(database: Database, clock: Callable[[], int]) -> int:
    """Look at a batch of events of every agent that has a source on; gives their number, 0: nothing is left. ``clock``: UTC µs."""
    with database.read() as connection:
        agents = with_sources(connection)
    total = 0
    for tenant, name, position, sources in agents:
        with database.write() as connection:
            where = (event.c.tenant == tenant, event.c.agent == name, event.c.position > position, event.c.kind.in_(_KINDS))
            query = select(event.c.event_id, event.c.position).where(*where).order_by(event.c.position).limit(_BATCH)
            rows, now_us = connection.execute(query).all(), clock()
            for row in rows:
                _look(connection, tenant, row.event_id, sources, now_us)
            if rows:
                move_on(connection, tenant, name, rows[-1].position)
        total += len(rows)
    return total


def _look(connection: Connection, tenant: str, event_id: str, sources: Sources, now_us: int) -> None:
    try:
        found = find_event(connection, tenant, event_id)
    except InvalidEvent as error:  # erased in part; there is nothing to go by
        logger.warning("event %s gives no reward: %s", event_id, error)
        return
    if found is None or found.m.get("erased"):
        return
    looked = _Looked(found, _parent(connection, found))
    for row in _rewards(looked, sources, now_us):
        if row.idempotency_key is None or find_by_idempotency(connection, tenant, row.idempotency_key) is None:
            insert_reward(connection, row)
    if sources.judge is not None and found.kind == "model_call" and looked.parent is not None:
        parent = looked.parent
        waiting = Waiting(tenant, parent.event_id, parent.trajectory_id, found.agent, found.event_id, 0)
        ask_for(connection, waiting, now_us)


def _parent(connection: Connection, found: Event) -> _Parent | None:
    """The model call before; none where this one is the same call sent again."""
    if not found.parent_id:
        return None
    columns = (event.c.event_id, event.c.trajectory_id, event.c.kind, event.c.request_digest)
    own = select(event.c.request_digest).where(event.c.tenant == found.tenant, event.c.event_id == found.event_id)
    digest = connection.execute(own).scalar()
    row = connection.execute(select(*columns).where(event.c.tenant == found.tenant, event.c.event_id == found.parent_id)).first()
    if row is None or row.kind != "model_call" or not row.trajectory_id:
        return None
    sent_again = digest is not None and row.request_digest == digest
    return None if sent_again else _Parent(row.event_id, row.trajectory_id)


def _rewards(looked: _Looked, sources: Sources, now_us: int) -> Iterator[RewardRow]:
    found, parent = looked.event, looked.parent
    turn = ("event", parent.event_id, parent.trajectory_id) if parent is not None else None
    if found.kind == "tool_call":
        failed = found.y.get("is_error") or found.y.get("error")
        if sources.tool_failure is not None and failed and turn is not None:
            why = f"the tool call of event {found.event_id} failed"
            value = sources.tool_failure
            yield given_by_rule(found.tenant, turn, "tool_failure", value, "environment", now_us, why, found.event_id)
        share = share_passed(result_of(found)) if found.a.get("name") in sources.tests and found.trajectory_id else None
        if share is not None:
            whole = ("trajectory", found.trajectory_id, found.trajectory_id)
            why = f"{share:.0%} of the tests of event {found.event_id} passed; a later run of the trajectory replaces it"
            value = share * sources.test_weight
            yield given_by_rule(found.tenant, whole, "tests", value, "test", now_us, why, found.event_id)
    elif sources.user_correction is not None and turn is not None:
        said = [text_of(message) for message in new_messages(found) if message.get("role") == "user"]
        if said and is_correction(said[0]):
            why = f"the user's next message, in event {found.event_id}, corrects it"
            value = sources.user_correction
            yield given_by_rule(found.tenant, turn, "user_correction", value, "user", now_us, why, found.event_id)
