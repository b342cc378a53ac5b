"""Feedback: rewards from whoever may reward, an agent's own key included."""

from fastapi import APIRouter, Response

from dataproxy.api.answers import json_answer
from dataproxy.api.identity import Body, Caller, ServicesDep, scope
from dataproxy.errors import NotFound
from dataproxy.feedback import Desk, decode_feedback, give_feedback, redact_feedback, tenant_of_target

router = APIRouter(prefix="/v1")


@router.post("/feedback")
def post_feedback(services: ServicesDep, caller: Caller, body: Body) -> Response:
    """200 stored; 202 kept until its exchange is stored; 404 forged, unknown, or another tenant's."""
    item = decode_feedback(body)
    tenant = scope(caller)
    if tenant is None:
        with services.database.read() as connection:
            tenant = tenant_of_target(connection, item.target)
        if tenant is None:
            raise NotFound("no such completion, event, trajectory or session")
    redactor = services.redactors.of(tenant)
    item = redact_feedback(item, lambda text: redactor.redact_text(text).text)
    desk = Desk(tenant, services.mac_secret, services.digests(tenant))
    with services.database.write() as connection:
        receipt = give_feedback(connection, desk, item, caller.key_id, services.now_us())
    return json_answer(receipt, 202 if receipt.status == "pending" else 200)
