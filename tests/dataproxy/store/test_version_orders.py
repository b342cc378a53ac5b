"""Which order stands behind a change of what serves: those of a step of training and of a command have none."""

from atdp.versions import PolicyVersion, version_name
from dataproxy.client.order_types import OrderAction, OrderAsk
from dataproxy.store.version_history import states_of
from dataproxy.store.version_orders import ask_order, move_order, orders_behind
from dataproxy.store.versions import register_version
from tests.dataproxy.proxy import Proxy


def becomes(proxy: Proxy, index: int, state: str, at_us: int) -> None:
    with proxy.services.database.write() as connection:
        version = PolicyVersion(version_name(index), None, state, 0, "v")  # type: ignore[arg-type]
        register_version(connection, version, "internal-trainer", at_us)


def begun(proxy: Proxy, index: int, action: OrderAction, at_us: int) -> str:
    with proxy.services.database.write() as connection:
        order = ask_order(connection, OrderAsk(version_name(index), action, "as agreed", 0.5), "key-op", at_us)
        return move_order(connection, order.order_id, "begin", "", "internal-trainer", at_us + 5).order_id


def ended(proxy: Proxy, order_id: str, step: str, at_us: int) -> None:
    with proxy.services.database.write() as connection:
        move_order(connection, order_id, step, "", "internal-trainer", at_us)


def behind(proxy: Proxy) -> dict[tuple[str, str, int], str | None]:
    """(version, state, when) → the order's id."""
    with proxy.services.database.read() as connection:
        found = orders_behind(connection, states_of(connection))
    return {(one.version, one.state, one.changed_us): order.order_id if order else None for one, order in found}


async def test_a_rollback_by_order_is_told_from_a_step_and_a_command_beside_it(proxy: Proxy) -> None:
    becomes(proxy, 0, "serving", 10)
    becomes(proxy, 1, "serving", 20)
    order_id = begun(proxy, 0, "serve", 30)
    becomes(proxy, 2, "serving", 45)  # the trainer held the lock first
    becomes(proxy, 0, "serving", 50)
    assert behind(proxy)["v000000", "serving", 50] == order_id  # while it is open
    ended(proxy, order_id, "done", 60)
    becomes(proxy, 1, "serving", 70)  # by command
    found = behind(proxy)
    assert {change for change, order in found.items() if order} == {("v000000", "serving", 50), ("v000002", "retired", 50)}
    assert len(found) == 9


async def test_a_canarys_begin_and_end_and_a_failed_swap_have_their_orders(proxy: Proxy) -> None:
    for index, state in enumerate(("serving", "published", "published")):
        becomes(proxy, index, state, 10)
    first = begun(proxy, 1, "canary", 20)
    becomes(proxy, 1, "canary", 30)
    ended(proxy, first, "done", 40)
    second = begun(proxy, 2, "serve", 50)
    becomes(proxy, 1, "retired", 60)
    becomes(proxy, 2, "failed", 61)
    ended(proxy, second, "refuse", 70)
    ordered = {change: order for change, order in behind(proxy).items() if order}
    assert ordered == {
        ("v000001", "canary", 30): first,
        ("v000001", "retired", 60): second,
        ("v000002", "failed", 61): second,
    }
