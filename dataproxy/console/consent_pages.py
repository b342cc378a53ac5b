"""Consent and retention: what is on record, and an admin's new words. Every action is the API's own."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from dataproxy.api import admin_routes, retain_routes
from dataproxy.api.identity import scope
from dataproxy.client.review_types import Retention
from dataproxy.client.types import Consent
from dataproxy.console.api_calls import answered, redacted, tenant_of
from dataproxy.console.choices import chosen
from dataproxy.console.rendering import render
from dataproxy.console.seat import Form, Seat, ServicesDep
from dataproxy.errors import Refused
from dataproxy.store.consents import ConsentBook

router = APIRouter()
_SHOWN = 200


@router.get("/consents")
def get_consents(request: Request, services: ServicesDep, seat: Seat) -> Response:
    """Consents and retention on record."""
    consents = answered(admin_routes.get_consent(services, seat.caller, seat.purpose), list[Consent])
    held, said = ConsentBook(consents).in_force(), with_end(consents)
    retention = answered(retain_routes.get_retention(services, seat.caller, seat.purpose), list[Retention])[::-1]
    shown: dict[str, Any] = {"held": held[:_SHOWN], "said": said[:_SHOWN], "retention": retention[:_SHOWN]}
    shown |= {"num_held": len(held), "num_said": len(said)}
    return render(request, "consents.html", seat, **shown, own=scope(seat.caller) or "")


@router.post("/consents")
def post_consent(services: ServicesDep, seat: Seat, form: Form) -> Response:
    """Put one on record."""
    given = Consent(
        tenant=tenant_of(seat.caller, form),
        recording=_yes(form, "recording"),
        training=_yes(form, "training"),
        reason=redacted(services, seat.caller, form, "reason"),
        agent=form.get("agent", "").strip(),
        session_id=form.get("session", "").strip(),
    )
    admin_routes.post_consent(services, seat.caller, msgspec.json.encode(given), must_exist=True)
    return RedirectResponse("/console/consents?done=consent", 303)


@router.post("/retention")
def post_retention(services: ServicesDep, seat: Seat, form: Form) -> Response:
    """Say how long something is kept from now on."""
    days = form.get("days", "").strip()
    try:
        kept = float(days) if days else None
    except ValueError as error:
        raise Refused("`days` is a number, or nothing: kept until it is erased") from error
    if kept is not None and not math.isfinite(kept):
        raise Refused("`days` is a finite number")
    fields = [form.get(name, "").strip() for name in ("name", "reason", "agent")]
    given = Retention(tenant_of(seat.caller, form), fields[0], kept, fields[1], fields[2])
    retain_routes.post_retention(services, seat.caller, msgspec.json.encode(given))
    return RedirectResponse("/console/consents?done=retention", 303)


def with_end(consents: Sequence[Consent]) -> list[tuple[Consent, int | None]]:
    """(word, when a later one on the same scope took its place: UTC µs; None: it is in force), newest first."""
    later: dict[tuple[str, str, str], int] = {}
    found: list[tuple[Consent, int | None]] = []
    for word in reversed(consents):
        scope_of_it = (word.tenant, word.agent, word.session_id)
        found.append((word, later.get(scope_of_it)))
        later[scope_of_it] = word.created_us
    return found


def _yes(form: Mapping[str, str], name: str) -> bool:
    return chosen(name, form.get(name, ""), ("yes", "no")) == "yes"
