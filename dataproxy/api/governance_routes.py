"""Feedback: rewards from whoever may reward, an agent's own key included, one or many at a time; and those that wait in vain."""

from fastapi import APIRouter, Query, Response

from dataproxy.api.answers import json_answer
from dataproxy.api.identity import Body, Caller, ServicesDep, require, scope
from dataproxy.api.on_record import Purpose, put_list_on_record
from dataproxy.client.reward_types import FeedbackFault, FeedbackOutcome, FeedbackReceipts
from dataproxy.client.types import Feedback, KeyInfo
from dataproxy.errors import NotFound, Refused
from dataproxy.feedback import (
    Desk,
    check_length,
    decode_batch,
    decode_feedback,
    give_feedback,
    redact_feedback,
    tenant_of_target,
)
from dataproxy.redact import RedactionFailed
from dataproxy.services import Services
from dataproxy.store.dead_letters import list_dead, retry_dead

router = APIRouter(prefix="/v1")


@router.post("/feedback")
def post_feedback(services: ServicesDep, caller: Caller, body: Body) -> Response:
    """200 stored; 202 kept until its exchange is stored; 404 forged, unknown, or another tenant's.

    A list of them is answered by a list, each as it would have been alone.
    """
    if body.lstrip()[:1] == b"[":
        return json_answer(FeedbackReceipts(_take_batch(services, caller, decode_batch(body))))
    tenant, item = _redacted(services, caller, decode_feedback(body))
    desk = Desk(tenant, services.mac_secret, services.digests(tenant))
    with services.database.write() as connection:
        receipt = give_feedback(connection, desk, item, caller.key_id, services.now_us())
    return json_answer(receipt, 202 if receipt.status == "pending" else 200)


@router.get("/feedback/dead")
def get_dead(services: ServicesDep, caller: Caller, purpose: Purpose, limit: int = Query(100, ge=1, le=1000)) -> Response:
    """Rewards that waited in vain for their exchange, oldest first."""
    require(caller, "reviewer")
    with services.database.read() as connection:
        letters = list_dead(connection, scope(caller), limit)
    put_list_on_record(services, caller, letters, "dead letters", purpose)
    return json_answer(letters)


@router.post("/feedback/dead/{letter_id}/retry")
def post_retry(services: ServicesDep, caller: Caller, letter_id: str) -> Response:
    """Try one again."""
    require(caller)
    with services.database.write() as connection:
        return json_answer(retry_dead(connection, scope(caller), letter_id, services.now_us()))


def _take_batch(services: Services, caller: KeyInfo, items: list[Feedback]) -> list[FeedbackOutcome]:
    """All that can be taken, in one transaction."""
    outcomes: dict[int, FeedbackOutcome] = {}
    ready: list[tuple[int, str, Feedback]] = []
    for place, item in enumerate(items):
        try:
            check_length(item)
            ready.append((place, *_redacted(services, caller, item)))
        except (NotFound, Refused, RedactionFailed) as error:
            outcomes[place] = _fault(error)
    with services.database.write() as connection:
        for place, tenant, item in ready:
            desk = Desk(tenant, services.mac_secret, services.digests(tenant))
            try:
                receipt = give_feedback(connection, desk, item, caller.key_id, services.now_us())
                outcomes[place] = FeedbackOutcome(202 if receipt.status == "pending" else 200, receipt)
            except (NotFound, Refused) as error:  # raised before anything of this piece is written
                outcomes[place] = _fault(error)
    return [outcomes[place] for place in range(len(items))]


def _redacted(services: Services, caller: KeyInfo, item: Feedback) -> tuple[str, Feedback]:
    """(tenant, redacted feedback): the caller's tenant, or an operator's target's."""
    tenant = scope(caller)
    if tenant is None:
        with services.database.read() as connection:
            tenant = tenant_of_target(connection, services.mac_secret, item.target)
        if tenant is None:
            raise NotFound("no such completion, event, trajectory or session")
    redactor = services.redactors.of(tenant)
    return tenant, redact_feedback(item, lambda text: redactor.redact_text(text).text)


def _fault(error: Exception) -> FeedbackOutcome:
    if isinstance(error, RedactionFailed):
        message = f"a text could not be redacted for certain ({error.reason}); shorten or leave it out"
        return FeedbackOutcome(400, error=FeedbackFault("redaction_failed", message))
    status, code = (404, "not_found") if isinstance(error, NotFound) else (400, "invalid_request")
    return FeedbackOutcome(status, error=FeedbackFault(code, str(error)))
