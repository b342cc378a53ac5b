"""Orders about which version serves: an operator's admin or trainer gives one, the trainer's keeper carries it out."""

from fastapi import APIRouter, Query, Response

from dataproxy.api.answers import json_answer, parse
from dataproxy.api.identity import Body, Caller, ServicesDep, require, require_operator
from dataproxy.api.on_record import unrecorded
from dataproxy.client.order_types import OrderAsk, OrderStep
from dataproxy.client.types import KeyInfo
from dataproxy.services import Services
from dataproxy.store.version_orders import MOST_ORDERS, ask_order, list_orders, move_order

router = APIRouter(prefix="/v1/version-orders")
_MOST_SAID = 1000


@router.get("")
@unrecorded("what the keeper asks at every poll: orders about versions, the operator's own")
def get_orders(services: ServicesDep, caller: Caller, limit: int = Query(MOST_ORDERS, ge=1, le=MOST_ORDERS)) -> Response:
    """The newest orders first."""
    require(caller, "trainer", "reviewer")
    require_operator(caller)
    with services.database.read() as connection:
        return json_answer(list_orders(connection, limit))


@router.post("")
def post_order(services: ServicesDep, caller: Caller, body: Body) -> Response:
    """Order that a version serves, everybody or a share of the sessions."""
    _require_rights(caller)
    ask = parse(body, OrderAsk)
    ask = OrderAsk(ask.version, ask.action, _redacted(services, ask.reason), ask.share)
    with services.database.write() as connection:
        return json_answer(ask_order(connection, ask, caller.key_id, services.now_us()))


@router.post("/{order_id}/{step}")
def post_step(services: ServicesDep, caller: Caller, order_id: str, step: str, body: Body) -> Response:
    """Begin it, say that it is done or why not, or withdraw it."""
    _require_rights(caller)
    said = _redacted(services, parse(body, OrderStep).said)
    with services.database.write() as connection:
        return json_answer(move_order(connection, order_id, step, said, caller.key_id, services.now_us()))


def _require_rights(caller: KeyInfo) -> None:
    """Who may put versions on record may say which of them serves."""
    require(caller, "trainer")
    require_operator(caller)


def _redacted(services: Services, text: str) -> str:
    text = " ".join(text.split())[:_MOST_SAID]
    return services.redactors.of("").redact_text(text).text if text else ""
