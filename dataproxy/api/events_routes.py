"""Events from whoever may call: batches of ATDP events, each with a receipt. A repeated batch changes nothing."""

from typing import Annotated

from fastapi import APIRouter, Header, Response

from atdp.ingest import MAX_EVENTS, EventBatch, Receipts
from dataproxy.api.answers import json_answer, parse
from dataproxy.api.identity import Body, Caller, ServicesDep, require
from dataproxy.client.types import KeyInfo
from dataproxy.errors import Refused
from dataproxy.ingest.judge import Sender
from dataproxy.ingest.take import take_raw

router = APIRouter(prefix="/v1")
Session = Annotated[str, Header(alias="x-headrace-session", max_length=128)]


@router.post("/events")
def post_events(services: ServicesDep, caller: Caller, body: Body, session: Session = "") -> Response:
    """200 with a receipt for each event: stored, duplicate or refused. 400 for what is no batch: nothing of it is stored."""
    sender = sender_of(caller, session)
    batch = parse(body, EventBatch)
    if len(batch.events) > MAX_EVENTS:
        raise Refused(f"a batch may have {MAX_EVENTS} events; this one has {len(batch.events)}")
    return json_answer(Receipts(take_raw(services, sender, batch.events)))


def sender_of(caller: KeyInfo, session: str) -> Sender:
    """The sender that a key stands for: an agent's key speaks for that agent, an admin's for any of its tenant.

    Raises:
        NotAllowed: the key has another role.
    """
    require(caller, "agent")
    return Sender(caller.tenant, caller.agent if caller.role == "agent" else "", caller.key_id, session)
