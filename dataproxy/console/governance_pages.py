"""Governance: who read what, holds, and erasure with its consequences shown before.

Every action is the API's own: what that refuses, this refuses.
"""

from collections.abc import Sequence
from typing import Annotated, Any, get_args

import msgspec
from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import RedirectResponse

from dataproxy.api import retain_routes
from dataproxy.api.identity import require, scope
from dataproxy.api.on_record import put_on_record
from dataproxy.api.trajectory_routes import session_names
from dataproxy.client.review_types import AccessRow, Erasure, ErasureRequest, HoldRelease, LegalHold
from dataproxy.console.api_calls import answered, tenant_of
from dataproxy.console.choices import chosen
from dataproxy.console.filters import moment
from dataproxy.console.rendering import render
from dataproxy.console.seat import Form, Seat, ServicesDep
from dataproxy.retain.holds import SCOPES
from dataproxy.retain.targets import Scope as Erasable
from dataproxy.store.access import What
from dataproxy.store.access_pages import Lending, ReadQuery, lendings, named, page_of_reads, reads_of_many

router = APIRouter()
_ROWS = 50
_SHOWN = 200
_OF_ONE = ("target", "others")
"""Fields with which the list of reads is of one thing, whoever read it, whenever and why."""
_WHATS = [("", "anything"), *((what, what.replace("_", " ")) for what in sorted(get_args(What)))]
Text = Annotated[str, Query(max_length=200)]
ScopeText = Annotated[str, Query(alias="scope", max_length=200)]


@router.get("/access")
def get_access(
    request: Request,
    services: ServicesDep,
    seat: Seat,
    before: Text = "",
    reader: Text = "",
    target: Text = "",
    what: Text = "",
    purpose: Text = "",
    since: Text = "",
    until: Text = "",
    others: Text = "",
) -> Response:
    """Who read what, newest first. Of one thing alone: also what may have held it, and to whom it was lent.

    ``others``: without the reads by the key that asks.
    """
    require(seat.caller, "reviewer")
    given = {"reader": reader, "target": target, "purpose": purpose, "since": since, "until": until}
    closed = {"what": chosen("what", what, get_args(What)) or "", "others": chosen("others", others, ("yes",)) or ""}
    fields = {name: value.strip() for name, value in given.items()} | closed
    since_us, until_us = moment(fields, "since"), moment(fields, "until")
    not_by = seat.caller.key_id if fields["others"] else ""
    put_on_record(services, seat.caller, [seat.caller.tenant], "access_log", target or reader, seat.purpose)
    whose, found = scope(seat.caller), None
    many: Sequence[AccessRow] = []
    lent: Sequence[Lending] = []
    with services.database.read() as connection:
        if fields["target"]:
            found = named(connection, whose, fields["target"], session_names(services, whose, fields["target"]))
        names = found.names if found else None
        wanted = ReadQuery(fields["reader"], fields["what"], names, fields["purpose"], since_us, until_us, not_by)
        page = page_of_reads(connection, whose, wanted, before, _ROWS)
        if found and found.trajectories and not before and all(name in _OF_ONE for name, value in fields.items() if value):
            many = reads_of_many(connection, whose, found, not_by, _ROWS)
            lent = lendings(connection, found, _ROWS)
    shown: dict[str, Any] = {
        "page": page,
        "fields": fields,
        "whats": _WHATS,
        "before": before,
        "many": many,
        "lent": lent,
        "most": _ROWS,
        "unknown": found is not None and not found.trajectories,
    }
    return render(request, "access.html", seat, **shown)


@router.get("/holds")
def get_holds(
    request: Request, services: ServicesDep, seat: Seat, scope_: ScopeText = "", target: Text = "", tenant: Text = ""
) -> Response:
    """Holds in force and those that ended; the form for a new one, filled in where the address says for what."""
    given = {"scope": chosen("scope", scope_, SCOPES) or "", "target": target, "tenant": tenant}
    holds = answered(retain_routes.get_holds(services, seat.caller, seat.purpose, released=True), list[LegalHold])[::-1]
    return render(request, "holds.html", seat, holds=holds[:_SHOWN], num=len(holds), given=given, own=scope(seat.caller) or "")


@router.post("/holds")
def post_hold(services: ServicesDep, seat: Seat, form: Form) -> Response:
    """Put a hold on something."""
    tenant = tenant_of(seat.caller, form)
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
def get_erasure(request: Request, seat: Seat, scope_: ScopeText = "", target: Text = "", tenant: Text = "") -> Response:
    """The form; nothing is erased by it, only foreseen."""
    require(seat.caller)
    named = chosen("scope", scope_, get_args(Erasable)) or "trajectory"
    given = {"scope": named, "target": target, "tenant": tenant, "reason": ""}
    return render(request, "erasure.html", seat, given=given, outcome=None, own=scope(seat.caller) or "", fault="")


@router.post("/erasure")
def post_erasure(request: Request, services: ServicesDep, seat: Seat, form: Form) -> Response:
    """What it would do; and once its number of events is typed, do it."""
    given = {name: form.get(name, "").strip() for name in ("scope", "target", "reason")}
    given["tenant"] = tenant_of(seat.caller, form)
    wanted = ErasureRequest(given["tenant"], given["scope"], given["target"], given["reason"], dry_run=True)
    foreseen = answered(retain_routes.post_erasure(services, seat.caller, msgspec.json.encode(wanted), seat.purpose), Erasure)
    fault = ""
    if "confirm" in form:
        if form["confirm"].strip() == str(foreseen.events):
            wanted = msgspec.structs.replace(wanted, dry_run=False)
            done = answered(retain_routes.post_erasure(services, seat.caller, msgspec.json.encode(wanted), seat.purpose), Erasure)
            return render(request, "erasure.html", seat, given=given, outcome=done, own=scope(seat.caller) or "", fault="")
        fault = f"Type {foreseen.events}, the number of events, to erase them."
    return render(request, "erasure.html", seat, given=given, outcome=foreseen, own=scope(seat.caller) or "", fault=fault)
