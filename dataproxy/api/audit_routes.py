"""The reviewer's side: audit of the log, who read what, search, and evidence that can be checked without us."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query, Response
from fastapi.responses import StreamingResponse
from sqlalchemy import Connection, func, select

from dataproxy.api.answers import attachment, json_answer
from dataproxy.api.identity import Caller, ServicesDep, require, scope
from dataproxy.api.on_record import Purpose, put_on_record
from dataproxy.api.trajectory_routes import session_names
from dataproxy.client.review_types import AuditProblem, AuditProgress, AuditReport
from dataproxy.client.types import EventPage, KeyInfo
from dataproxy.errors import NotFound, Refused
from dataproxy.file_names import evidence_parts
from dataproxy.ledger.bundle import write_bundle
from dataproxy.ledger.errors import NoteInvalid
from dataproxy.ledger.signed import FILE
from dataproxy.ledger.verify import verify
from dataproxy.ledger.witness import WitnessVerifier
from dataproxy.retain.targets import belongings, resolve
from dataproxy.services import Services
from dataproxy.store.access_pages import named, read_log
from dataproxy.store.keys import OPERATOR
from dataproxy.store.schema import log_head
from dataproxy.store.scope import Scope, current_scope
from dataproxy.store.search import SearchQuery, search_events

router = APIRouter(prefix="/v1/audit")
_PIECE = 1 << 20


@router.get("/verify")
def get_verification(
    services: ServicesDep, caller: Caller, purpose: Purpose, witness: Annotated[list[str] | None, Query()] = None
) -> StreamingResponse:
    """An ``AuditProgress`` a line, and the ``AuditReport`` last; each ``witness`` (a verifier key) must have cosigned each log."""
    require(caller, "reviewer")
    try:
        witnesses = [WitnessVerifier(key) for key in witness or ()]
    except NoteInvalid as error:
        raise Refused(str(error)) from error
    put_on_record(services, caller, [caller.tenant], "audit", "verify", purpose)
    steps = audit_steps(services, scope(caller), current_scope(), witnesses)
    return StreamingResponse((msgspec.json.encode(step) + b"\n" for step in steps), media_type="application/x-ndjson")


@router.get("/log")
def get_access_log(
    services: ServicesDep,
    caller: Caller,
    purpose: Purpose,
    limit: int = Query(50, ge=1, le=1000),
    after: str = "",
    reader: str | None = None,
    target: str | None = None,
) -> Response:
    """A page of who read what, oldest first; this read is on it."""
    require(caller, "reviewer")
    put_on_record(services, caller, [caller.tenant], "access_log", target or reader or "", purpose)
    whose = scope(caller)
    with services.database.read() as connection:
        names = named(connection, whose, target, session_names(services, whose, target)).names if target else None
        return json_answer(read_log(connection, whose, reader, names, after, limit))


@router.get("/search")
def get_search(
    services: ServicesDep,
    caller: Caller,
    purpose: Purpose,
    text: str = "",
    kind: str | None = None,
    agent: str | None = None,
    session: str | None = None,
    since_us: int | None = None,
    until_us: int | None = None,
    after: int = Query(0, ge=0),
    limit: int = Query(50, ge=1, le=500),
) -> Response:
    """A page of events that say ``text``; where not all could be looked at, ``next_after`` says where to go on."""
    require(caller, "reviewer")
    tenant = scope(caller)
    query = SearchQuery(tenant, text, kind, agent, _session_names(services, tenant, session), since_us, until_us)
    with services.database.read() as connection:
        found, next_after = search_events(connection, query, after, limit)
    owners = {event.tenant for event in found} or {caller.tenant}
    put_on_record(services, caller, owners, "search", text or session or kind or "", purpose)
    return json_answer(EventPage(found, next_after))


@router.get("/export")
def get_evidence(
    services: ServicesDep,
    caller: Caller,
    purpose: Purpose,
    tenant: str | None = None,
    subject: str | None = None,
    session: str | None = None,
    trajectory: str | None = None,
) -> StreamingResponse:
    """A zip file: rows, proofs, checkpoints, who read, the public key, and a program that checks them."""
    require(caller, "reviewer")
    owner = _owner(services, caller, tenant)
    given = {"subject": subject, "session": session, "trajectory": trajectory}
    named = [(kind, name) for kind, name in given.items() if name is not None]
    if len(named) > 1:
        raise Refused("say one of subject, session and trajectory, or none for everything")
    put_on_record(services, caller, [owner], "evidence", ":".join(named[0]) if named else "", purpose)
    services.checkpoints.cut()
    with services.database.read() as connection:
        found = belongings(connection, resolve(connection, owner, *named[0], services.digests(owner))) if named else None
        with ExitStack() as failing:
            file = failing.enter_context(tempfile.SpooledTemporaryFile(max_size=64 * _PIECE))
            write_bundle(connection, owner, found.trajectories if found else None, services.checkpoints, file)
            file.seek(0)
            failing.pop_all()  # it is closed when the last piece was sent
    headers = attachment(*evidence_parts(owner, dict(named)), ending="zip", at_us=services.now_us())
    return StreamingResponse(_pieces(file), media_type="application/zip", headers=headers)


def audit_steps(
    services: Services, tenant: str | None, whose: Scope, witnesses: Sequence[WitnessVerifier] = ()
) -> Iterator[AuditProgress | AuditReport]:
    """The audit of ``tenant``'s log (None: of all), as it goes; the report comes last."""
    with ExitStack() as stack:
        with services.checkpoints.lock:  # so that file and snapshot are of one moment
            connection = stack.enter_context(services.database.read(whose))
            connection.execute(select(func.count()).select_from(log_head)).scalar_one()
            try:
                lines = services.checkpoints.read_file()
            except NoteInvalid as error:
                yield AuditReport(False, 0, 0, 0, 0, [AuditProblem("", FILE, "", str(error))], 1)
                return
        mine = lines if tenant is None else [line for line in lines if line.tenant == tenant]
        yield from verify(connection, tenant, services.checkpoints.signer.verifier, mine, witnesses)


def _owner(services: Services, caller: KeyInfo, tenant: str | None) -> str:
    own = scope(caller)
    if own is not None:
        if tenant not in (None, own):
            raise NotFound(f"no tenant {tenant}")
        return own
    with services.database.read() as connection:
        owners = _logs(connection)
    if tenant is None:
        raise Refused(f"say whose with `tenant`: {', '.join(owner for owner in owners if owner != OPERATOR)}")
    if tenant not in owners:
        raise NotFound(f"no tenant {tenant}")
    return tenant


def _logs(connection: Connection) -> list[str]:
    return sorted(connection.execute(select(log_head.c.tenant)).scalars())


def _session_names(services: Services, tenant: str | None, session: str | None) -> tuple[str, ...]:
    """A session by its id, or by the name that its agent gave it."""
    if session is None:
        return ()
    digest = [services.digests(tenant).of(b"session", session.encode()).hex()] if tenant is not None else []
    return (session, *(f"digest-{one}" for one in digest))


def _pieces(file: Any) -> Iterator[bytes]:
    with file:
        while piece := file.read(_PIECE):
            yield piece
