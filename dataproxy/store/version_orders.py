"""Orders about which version serves. One is open at a time; each step of it is a row for good, and a leaf in the operator's log."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, select

from atdp.ids import new_event_id
from dataproxy.client.order_types import OrderAsk, OrderState, VersionOrder
from dataproxy.client.watch_types import VersionState
from dataproxy.errors import NotFound, Refused
from dataproxy.ledger.rows import append_rows
from dataproxy.store.keys import OPERATOR
from dataproxy.store.schema import policy_version_state, version_order
from dataproxy.store.versions import get_version, list_versions

STEPS: dict[str, tuple[OrderState, tuple[OrderState, ...]]] = {
    "begin": ("begun", ("waiting", "begun")),
    "done": ("done", ("begun",)),
    "refuse": ("refused", ("begun",)),
    "withdraw": ("withdrawn", ("waiting",)),
}
"""Step → the state that it leads to, and those that it may start from."""
_NEWEST = (version_order.c.created_us.desc(), version_order.c.order_id.desc())
_ORDER = ("waiting", "begun", "done", "refused", "withdrawn")
MOST_ORDERS = 50
_MOST_SEARCHED = 500


def list_orders(connection: Connection, limit: int = MOST_ORDERS) -> list[VersionOrder]:
    """The newest first."""
    asked = select(version_order).where(version_order.c.tenant == OPERATOR, version_order.c.state == "waiting")
    newest = connection.execute(asked.order_by(*_NEWEST).limit(limit)).all()
    ids = [row.order_id for row in newest]
    steps = select(version_order).where(version_order.c.tenant == OPERATOR, version_order.c.order_id.in_(ids))
    last = {row.order_id: row for row in sorted(connection.execute(steps).all(), key=lambda row: _ORDER.index(row.state))}
    return [_order(row, last[row.order_id]) for row in newest]


def ask_order(connection: Connection, ask: OrderAsk, key_id: str, now_us: int) -> VersionOrder:
    """Put an order on record; the keeper carries it out within its poll.

    Raises:
        NotFound: there is no such version.
        Refused: another order is open, the share is none, there is no reason, or nothing would change.
    """
    version = get_version(connection, ask.version)
    if not ask.reason:
        raise Refused("an order needs a `reason`; it is kept")
    if not 0.0 < ask.share <= 1.0:
        raise Refused("`share` is above 0 and at most 1")
    is_canary = any(one.state == "canary" for one in list_versions(connection))
    if version.state == "serving" and (ask.action == "canary" or not is_canary):
        raise Refused(f"{version.version} serves everybody already")
    open_one = next((one for one in list_orders(connection, 1) if one.is_open), None)
    if open_one is not None:
        raise Refused(f"the order about {open_one.version} is open still; wait for it, or withdraw it first")
    row = {"version": ask.version, "action": ask.action, "share": ask.share}
    _write(connection, f"order-{new_event_id()}", "waiting", row, ask.reason, key_id, now_us)
    return list_orders(connection, 1)[0]


def move_order(connection: Connection, order_id: str, step: str, said: str, key_id: str, now_us: int) -> VersionOrder:
    """Take one of ``STEPS``, on record. ``begin`` again changes nothing, so that a keeper that died may go on.

    Raises:
        NotFound: there is no such order, or no such step.
        Refused: the order is not where that step starts.
    """
    order = next((one for one in list_orders(connection) if one.order_id == order_id), None)
    if order is None or step not in STEPS:
        raise NotFound(f"no order {order_id} that could {step}")
    state, starts = STEPS[step]
    if order.state not in starts:
        raise Refused(f"the order about {order.version} is {order.state}: it can't {step} any more")
    if order.state != state:
        row = {"version": order.version, "action": order.action, "share": order.share}
        _write(connection, order_id, state, row, said, key_id, now_us)
    return next(one for one in list_orders(connection) if one.order_id == order_id)


def orders_behind(connection: Connection, changes: Sequence[VersionState]) -> list[tuple[VersionState, VersionOrder | None]]:
    """Each change with the order that it carried out; None where no order did: a step of training, or a command.

    An order changes its own version between its begin and its end, and retires another at that same moment, or a canary before.
    """
    orders = [one for one in list_orders(connection, _MOST_SEARCHED) if one.state in ("begun", "done", "refused")]
    steps = select(version_order.c.order_id, version_order.c.created_us).where(version_order.c.tenant == OPERATOR)
    steps = steps.where(version_order.c.state == "begun", version_order.c.order_id.in_([one.order_id for one in orders]))
    begun = {row.order_id: row.created_us for row in connection.execute(steps)}
    row = policy_version_state
    served = select(row.c.changed_us, row.c.version).where(row.c.state == "serving")
    served = served.where(row.c.changed_us.in_({one.changed_us for one in changes if one.state == "retired"}))
    successors = {found.changed_us: found.version for found in connection.execute(served)}

    def carried_out(order: VersionOrder, change: VersionState) -> bool:
        within = begun[order.order_id] <= change.changed_us and (order.is_open or change.changed_us <= order.moved_us)
        subject = successors.get(change.changed_us, order.version) if change.state == "retired" else change.version
        return within and subject == order.version

    return [(change, next((one for one in orders if carried_out(one, change)), None)) for change in changes]


def _write(
    connection: Connection, order_id: str, state: OrderState, what: dict[str, Any], said: str, key_id: str, now_us: int
) -> None:
    row = {"tenant": OPERATOR, "order_id": order_id, "state": state, **what, "said": said, "key_id": key_id, "created_us": now_us}
    connection.execute(version_order.insert().values(row))
    append_rows(connection, version_order, [row])


def _order(asked: Any, last: Any) -> VersionOrder:
    first = (asked.order_id, asked.version, asked.action, asked.share, asked.said, asked.key_id, asked.created_us)
    return VersionOrder(*first, last.state, last.said if last.state != "waiting" else "", last.key_id, last.created_us)
