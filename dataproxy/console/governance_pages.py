"""Governance: who read what, the quarantine, consents, holds, erasure with its consequences shown before, and keys.

Every action is the API's own: what that refuses, this refuses.
"""

from typing import Annotated, Any, TypeVar

import msgspec
from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import RedirectResponse

from dataproxy.api import admin_routes, retain_routes
from dataproxy.api.identity import require, scope
from dataproxy.api.on_record import put_on_record
from dataproxy.api.trajectory_routes import page_of_quarantine
from dataproxy.client.review_types import Erasure, ErasureRequest, HoldRelease, LegalHold, Retention
from dataproxy.client.types import Consent, IssuedKey, KeyInfo, NewKey
from dataproxy.console.rendering import render
from dataproxy.console.seat import Form, Seat, ServicesDep
from dataproxy.errors import Refused
from dataproxy.services import Services
from dataproxy.store.access_pages import page_of_reads

router = APIRouter()
T = TypeVar("T")
_ROWS = 50
_SHOWN = 200
Text = Annotated[str, Query(max_length=200)]


@router.get("/access")
def get_access(
    request: Request, services: ServicesDep, seat: Seat, before: Text = "", reader: Text = "", target: Text = "", what: Text = ""
) -> Response:
    """Who read what, newest first."""
    require(seat.caller, "reviewer")
    put_on_record(services, seat.caller, [seat.caller.tenant], "access_log", target or reader, seat.purpose)
    fields = {"reader": reader.strip(), "target": target.strip(), "what": what.strip()}
    with services.database.read() as connection:
        page = page_of_reads(connection, scope(seat.caller), fields, before, _ROWS)
    return render(request, "access.html", seat, page=page, fields=fields, before=before)


@router.get("/quarantine")
def get_quarantine(request: Request, services: ServicesDep, seat: Seat, after: Text = "") -> Response:
    """What could not be redacted for certain, or not be read: sealed."""
    require(seat.caller, "reviewer")
    page = page_of_quarantine(services, seat.caller, after, _ROWS, seat.purpose)
    return render(request, "quarantine.html", seat, page=page)


@router.get("/consents")
def get_consents(request: Request, services: ServicesDep, seat: Seat) -> Response:
    """Consents and retention on record."""
    consents = _read(admin_routes.get_consent(services, seat.caller), list[Consent])[::-1]
    retention = _read(retain_routes.get_retention(services, seat.caller), list[Retention])[::-1]
    shown: dict[str, Any] = {"consents": consents[:_SHOWN], "retention": retention[:_SHOWN], "num": len(consents)}
    return render(request, "consents.html", seat, **shown, own=scope(seat.caller) or "")


@router.post("/consents")
def post_consent(services: ServicesDep, seat: Seat, form: Form) -> Response:
    """Put one on record."""
    given = Consent(
        tenant=_tenant(seat.caller, form.get("tenant", "")),
        recording=form.get("recording") == "yes",
        training=form.get("training") == "yes",
        reason=_redacted(services, seat.caller, form, "reason"),
        agent=form.get("agent", "").strip(),
        session_id=form.get("session", "").strip(),
    )
    admin_routes.post_consent(services, seat.caller, msgspec.json.encode(given), must_exist=True)
    return RedirectResponse("/console/consents?done=consent", 303)


@router.get("/holds")
def get_holds(
    request: Request, services: ServicesDep, seat: Seat, scope_: Annotated[str, Query(alias="scope")] = "", target: Text = ""
) -> Response:
    """Holds in force and those that ended; the form for a new one, filled in where the address says for what."""
    holds = _read(retain_routes.get_holds(services, seat.caller, released=True), list[LegalHold])[::-1]
    given = {"scope": scope_, "target": target, "tenant": request.query_params.get("tenant", "")[:128]}
    return render(request, "holds.html", seat, holds=holds[:_SHOWN], num=len(holds), given=given, own=scope(seat.caller) or "")


@router.post("/holds")
def post_hold(services: ServicesDep, seat: Seat, form: Form) -> Response:
    """Put a hold on something."""
    tenant = _tenant(seat.caller, form.get("tenant", ""))
    hold = LegalHold(tenant, form.get("scope", ""), form.get("target", "").strip(), form.get("reason", "").strip())
    retain_routes.post_hold(services, seat.caller, msgspec.json.encode(hold))
    return RedirectResponse("/console/holds?done=held", 303)


@router.post("/holds/{hold_id}/release")
def post_release(services: ServicesDep, seat: Seat, form: Form, hold_id: str) -> Response:
    """End a hold."""
    body = msgspec.json.encode(HoldRelease(form.get("reason", "").strip()))
    retain_routes.post_release(services, seat.caller, hold_id, body)
    return RedirectResponse("/console/holds?done=released", 303)


@router.get("/erasure")
def get_erasure(
    request: Request, seat: Seat, scope_: Annotated[str, Query(alias="scope")] = "trajectory", target: Text = ""
) -> Response:
    """The form; nothing is erased by it, only foreseen."""
    require(seat.caller)
    given = {"scope": scope_, "target": target, "tenant": request.query_params.get("tenant", "")[:128], "reason": ""}
    return render(request, "erasure.html", seat, given=given, outcome=None, own=scope(seat.caller) or "", fault="")


@router.post("/erasure")
def post_erasure(request: Request, services: ServicesDep, seat: Seat, form: Form) -> Response:
    """What it would do; and once its number of events is typed, do it."""
    given = {name: form.get(name, "").strip() for name in ("scope", "target", "reason")}
    given["tenant"] = _tenant(seat.caller, form.get("tenant", ""))
    wanted = ErasureRequest(given["tenant"], given["scope"], given["target"], given["reason"], dry_run=True)
    foreseen = _read(retain_routes.post_erasure(services, seat.caller, msgspec.json.encode(wanted)), Erasure)
    fault = ""
    if "confirm" in form:
        if form["confirm"].strip() == str(foreseen.events):
            wanted = msgspec.structs.replace(wanted, dry_run=False)
            done = _read(retain_routes.post_erasure(services, seat.caller, msgspec.json.encode(wanted)), Erasure)
            return render(request, "erasure.html", seat, given=given, outcome=done, own=scope(seat.caller) or "", fault="")
        fault = f"Type {foreseen.events}, the number of events, to erase them."
    return render(request, "erasure.html", seat, given=given, outcome=foreseen, own=scope(seat.caller) or "", fault=fault)


@router.get("/keys")
def get_keys(request: Request, services: ServicesDep, seat: Seat) -> Response:
    """All keys, newest first; their texts are nowhere."""
    keys = _read(admin_routes.get_keys(services, seat.caller), list[KeyInfo])[::-1]
    return render(request, "keys.html", seat, keys=keys[:_SHOWN], num=len(keys), issued=None, own=scope(seat.caller) or "")


@router.post("/keys")
def post_key(request: Request, services: ServicesDep, seat: Seat, form: Form) -> Response:
    """Issue one; this answer alone shows it."""
    try:
        fields = {
            "tenant": _tenant(seat.caller, form.get("tenant", "")),
            "agent": form.get("agent", "").strip(),
            "role": form.get("role", ""),
        }
        new = msgspec.convert(fields, NewKey)
    except msgspec.ValidationError as error:
        raise Refused(f"there is no such role: {error}") from error
    issued = _read(admin_routes.post_key(services, seat.caller, msgspec.json.encode(new)), IssuedKey)
    keys = _read(admin_routes.get_keys(services, seat.caller), list[KeyInfo])[::-1]
    return render(request, "keys.html", seat, keys=keys[:_SHOWN], num=len(keys), issued=issued, own=scope(seat.caller) or "")


@router.post("/keys/{key_id}/revoke")
def post_revoke(services: ServicesDep, seat: Seat, _: Form, key_id: str) -> Response:
    """Revoke one for good."""
    admin_routes.delete_key(services, seat.caller, key_id)
    return RedirectResponse("/console/keys?done=revoked", 303)


def _read(answer: Response, type_: type[T]) -> T:
    return msgspec.json.decode(bytes(answer.body), type=type_)


def _tenant(caller: KeyInfo, given: str) -> str:
    own = scope(caller)
    return given.strip() if own is None else own


def _redacted(services: Services, caller: KeyInfo, form: Form, name: str) -> str:
    text = form.get(name, "").strip()
    return services.redactors.of(_tenant(caller, form.get("tenant", ""))).redact_text(text).text if text else ""
