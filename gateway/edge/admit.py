"""Decides whether a request becomes a call: what it asks, whether the key may, its session, its workers, its ids."""

from atdp.ids import mint_completion_id
from gateway.call import Call
from gateway.dialects import Dialect
from gateway.errors import Refused
from gateway.keys import Identity
from gateway.parsing import AgentRequest, parse_request
from gateway.placement import holder, mark
from gateway.state import Gateway
from gateway.upstream.connection import Headers
from router.choose import choose
from router.workers import Health, Worker, served_models


def admit(
    gateway: Gateway, identity: Identity, event_id: str, dialect: Dialect, url_session: str, headers: Headers, body: bytes
) -> Call:
    """The call in ``body``, without workers and completion id yet. ``url_session`` is the session that the path names, or empty.

    Raises:
        Refused: 400, 404 or 503.
    """
    request = parse_request(body)
    model = request.model
    if not any(model in worker.models for worker in gateway.workers) or not identity.may_use(model):
        if not served_models(gateway.workers):
            raise Refused(503, "no_worker", "no inference worker has answered yet; try again shortly", retry_after_s=2)
        message = f"the model `{model[:100]}` does not exist or your key may not use it; GET /v1/models lists yours"
        raise Refused(404, "model_not_found", message, param="model")
    session = gateway.namer.name(identity.tenant, identity.key_id, url_session, headers, request, dialect)
    return Call(event_id, "", identity, session, request, dialect, headers, [])


def place(gateway: Gateway, call: Call) -> None:
    """Choose the call's workers, and mint its ids: once it may go to one.

    Raises:
        Refused: 404, it goes on from an answer that is not the caller's.
    """
    call.workers = workers = _choose(gateway, call.identity, call.session.affinity, call.request)
    dialect = call.dialect
    if dialect.keeps_answers and workers:
        call.event_id = mark(call.event_id, workers[0].url)
    if dialect.generates:
        call.completion_id = mint_completion_id(gateway.mac_secret, call.identity.tenant, call.event_id, dialect.prefix)


def _choose(gateway: Gateway, identity: Identity, affinity: bytes, request: AgentRequest) -> list[Worker]:
    """The workers to try: the one that holds the answer that this call goes on from, and no other, where it names one."""
    if previous := request.text("previous_response_id"):
        worker = holder(gateway, identity.tenant, previous)
        return [] if worker.health is Health.DOWN else [worker]
    return choose(affinity, request.model, gateway.workers, gateway.routing)
