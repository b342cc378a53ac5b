"""Decides whether a request becomes a call: what it asks, whether the key may, its session, its workers, its ids."""

from atdp.ids import mint_completion_id
from gateway.call import Call
from gateway.edge.facts import Facts
from gateway.errors import Refused
from gateway.groups import group_in
from gateway.keys import Identity
from gateway.parsing import AgentRequest, parse_request
from gateway.placement import holder, mark
from gateway.state import Gateway
from router.choose import choose
from router.workers import Health, Worker, served_models


def admit(gateway: Gateway, identity: Identity, event_id: str, facts: Facts, body: bytes) -> Call:
    """The call in ``body``, without workers and completion id yet.

    Raises:
        Refused: 400, 404 or 503.
    """
    dialect, request = facts.dialect, parse_request(body)
    if not (identity.may_use(request.model) and _is_served(gateway, request.model)):
        if not served_models(gateway.workers):
            raise Refused(503, "no_worker", "no inference worker has answered yet; try again shortly", retry_after_s=2)
        message = f"the model `{request.model[:100]}` does not exist or your key may not use it; GET /v1/models lists yours"
        raise Refused(404, "model_not_found", message, param="model")
    session = facts.name_session(gateway.namer, identity, request)
    call = Call(event_id, "", identity, session, request, dialect, facts.forwarded, facts.recorded)
    if facts.group:
        call.group = group_in(facts.group, gateway.namer)
    return call


def _is_served(gateway: Gateway, model: str) -> bool:
    for worker in gateway.workers:  # noqa: SIM110  # half the time of a generator, for each call
        if model in worker.models:
            return True
    return False


def place(gateway: Gateway, call: Call) -> None:
    """Choose the call's workers, and mint its ids: once it may go to one.

    Raises:
        Refused: 404, it goes on from an answer that is not the caller's.
    """
    call.workers = workers = _choose(gateway, call.identity, call.session.affinity, call.request, call.dialect.keeps_answers)
    dialect = call.dialect
    if dialect.keeps_answers and workers:
        call.event_id = mark(call.event_id, workers[0].url)
    if dialect.generates:
        call.completion_id = mint_completion_id(gateway.mac_secret, call.identity.tenant, call.event_id, dialect.prefix)


def _choose(gateway: Gateway, identity: Identity, affinity: bytes, request: AgentRequest, keeps_answers: bool) -> list[Worker]:
    """The workers to try: the one that holds the answer that this call goes on from, and no other, where it names one."""
    if keeps_answers and (previous := request.text("previous_response_id")):
        worker = holder(gateway, identity.tenant, previous)
        return [] if worker.health is Health.DOWN else [worker]
    return choose(affinity, request.model, gateway.workers, gateway.routing)
