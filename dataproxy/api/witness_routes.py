"""Witnesses of a log: what to ask one with, and keeping what it answered."""

from fastapi import APIRouter, Query, Response

from dataproxy.api.answers import json_answer, parse
from dataproxy.api.identity import Body, Caller, ServicesDep, require, scope
from dataproxy.api.on_record import unrecorded
from dataproxy.client.review_types import CosignatureAdded, CosignatureKept
from dataproxy.client.types import KeyInfo
from dataproxy.errors import NotFound, Refused
from dataproxy.ledger.cosignatures import add_cosignature, request_for
from dataproxy.ledger.errors import NoteInvalid
from dataproxy.ledger.witness import WitnessVerifier

router = APIRouter(prefix="/v1/audit/witness")


@router.get("")
@unrecorded("hashes of the log and its size, made to be shown to outsiders")
def get_request(services: ServicesDep, caller: Caller, tenant: str = "", old: int = Query(0, ge=0)) -> Response:
    """The body of a witness's ``add-checkpoint``: the last checkpoint, and the proof that it grew out of ``old`` leaves."""
    require(caller, "reviewer")
    owner = _own(caller, tenant)
    services.checkpoints.cut()
    with services.database.read() as connection:
        return Response(request_for(connection, owner, old).text(), media_type="text/plain; charset=utf-8")


@router.post("")
def post_cosignature(services: ServicesDep, caller: Caller, body: Body) -> Response:
    """Keep a witness's signature of one of the log's checkpoints."""
    require(caller, "reviewer")
    given = parse(body, CosignatureAdded)
    owner = _own(caller, given.tenant)
    try:
        witness = WitnessVerifier(given.key)
    except NoteInvalid as error:
        raise Refused(str(error)) from error
    with services.database.write() as connection:
        size, signed_s = add_cosignature(connection, owner, witness, given.line, services.now_us())
    return json_answer(CosignatureKept(owner, size, witness.label, signed_s))


def _own(caller: KeyInfo, tenant: str) -> str:
    """The tenant whose log is meant; another's is not there. An operator may mean the operator's own log."""
    own = scope(caller)
    if own is not None and tenant not in ("", own):
        raise NotFound(f"no tenant {tenant}")
    return tenant if own is None else own
