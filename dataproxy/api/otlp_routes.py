"""OTLP/HTTP traces: GenAI spans become events, evaluations of our own answers become rewards."""

from typing import Annotated

from fastapi import APIRouter, Header, Response

from dataproxy.api.events_routes import Session
from dataproxy.api.identity import Body, Caller, ServicesDep, require
from dataproxy.client.types import Feedback
from dataproxy.errors import NotFound, Refused
from dataproxy.feedback import Desk, give_feedback, redact_feedback
from dataproxy.ingest.judge import Sender
from dataproxy.ingest.otel.bodies import body_of, feedback_of
from dataproxy.ingest.otel.wire import answer, read_spans
from dataproxy.ingest.take import take_bodies
from dataproxy.services import Services
from dataproxy.store.keys import OPERATOR

router = APIRouter(prefix="/v1")
MAX_SPANS = 5000
ContentType = Annotated[str, Header(alias="content-type")]


@router.post("/traces")
def post_traces(
    services: ServicesDep, caller: Caller, body: Body, content_type: ContentType = "", session: Session = ""
) -> Response:
    """200 with OTLP's own answer: how many spans were rejected and why. Spans of no GenAI are not kept, and said to be so."""
    require(caller, "agent")
    if caller.tenant == OPERATOR:
        raise Refused("spans belong to the tenant of the key; send them with an agent's key")
    spans = read_spans(body, content_type)
    if len(spans) > MAX_SPANS:
        raise Refused(f"a request may have {MAX_SPANS} spans; this one has {len(spans)}")
    bodies = [made for span in spans if (made := body_of(span)) is not None]
    for made in bodies:
        made["session_id"] = session or made["session_id"][:128]
    sender = Sender(caller.tenant, caller.agent, caller.key_id, "", "otlp")
    refused = [receipt for receipt in take_bodies(services, sender, bodies) if receipt.status == "refused"]
    reasons = [receipt.reason for receipt in refused[:3]] + _reward(services, caller.tenant, caller.key_id, feedback_of(spans))
    if len(bodies) < len(spans):
        reasons.append(f"{len(spans) - len(bodies)} spans are none of GenAI and were not kept")
    data, media_type = answer(content_type, len(refused), "; ".join(reasons))
    return Response(data, media_type=media_type)


def _reward(services: Services, tenant: str, key_id: str, items: list[Feedback]) -> list[str]:
    """Give each reward; what is wrong with those that could not be given."""
    redactor, problems = services.redactors.of(tenant), []
    desk = Desk(tenant, services.mac_secret, services.digests(tenant))
    for item in items:
        clean = redact_feedback(item, lambda text: redactor.redact_text(text).text)
        try:
            with services.database.write() as connection:
                give_feedback(connection, desk, clean, key_id, services.now_us())
        except (NotFound, Refused) as error:
            problems.append(f"an evaluation was not kept: {error}")
    return problems[:3]
