"""What waits for a word beside redactions to review: the quarantine, and who asks that raw tokens be kept."""

from collections.abc import Mapping
from typing import Annotated

import msgspec
from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import RedirectResponse

from dataproxy.api import quarantine_routes, vault_routes
from dataproxy.api.identity import require, scope
from dataproxy.api.trajectory_routes import page_of_quarantine
from dataproxy.client.types import QuarantineRetried, QuarantineRetry
from dataproxy.client.vault_types import VaultApproval, VaultAsk, VaultWord
from dataproxy.console.api_calls import answered, tenant_of
from dataproxy.console.rendering import render
from dataproxy.console.seat import Form, Seat, ServicesDep
from dataproxy.errors import NotFound, Refused

router = APIRouter()
_ROWS = 50
Text = Annotated[str, Query(max_length=200)]


@router.get("/quarantine")
def get_quarantine(request: Request, services: ServicesDep, seat: Seat, after: Text = "") -> Response:
    """What could not be redacted for certain, or not be read: sealed."""
    require(seat.caller, "reviewer")
    page = page_of_quarantine(services, seat.caller, after, _ROWS, seat.purpose)
    return render(request, "quarantine.html", seat, page=page, retried=None)


@router.post("/quarantine/retry")
def post_retry(request: Request, services: ServicesDep, seat: Seat, form: Form) -> Response:
    """Try once more what lies there: after a rule or a tokenizer was mended."""
    wanted = QuarantineRetry([form["event_id"]] if form.get("event_id") else [])
    answer = quarantine_routes.post_retry(services, seat.caller, msgspec.json.encode(wanted), seat.purpose)
    retried = answered(answer, QuarantineRetried)
    page = page_of_quarantine(services, seat.caller, "", _ROWS, seat.purpose)
    return render(request, "quarantine.html", seat, page=page, retried=retried)


@router.get("/vault")
def get_vault(request: Request, services: ServicesDep, seat: Seat) -> Response:
    """Who asks that raw tokens be kept for the trainer, and what became of it."""
    approvals = answered(vault_routes.get_approvals(services, seat.caller, seat.purpose), list[VaultApproval])[::-1]
    return render(request, "vault.html", seat, approvals=approvals[:200], num=len(approvals), own=scope(seat.caller) or "")


@router.post("/vault")
def post_ask(services: ServicesDep, seat: Seat, form: Form) -> Response:
    """Ask; somebody else decides."""
    ask = VaultAsk(tenant_of(seat.caller, form), _days(form), form.get("reason", "").strip(), form.get("agent", "").strip())
    vault_routes.post_approval(services, seat.caller, msgspec.json.encode(ask))
    return RedirectResponse("/console/vault?done=asked", 303)


@router.post("/vault/{approval_id}/{action}")
def post_decision(services: ServicesDep, seat: Seat, form: Form, approval_id: str, action: str) -> Response:
    """Approve, deny or revoke."""
    if action not in ("approve", "deny", "revoke"):
        raise NotFound(f"no action {action}")
    body = msgspec.json.encode(VaultWord(form.get("reason", "").strip()))
    vault_routes.post_decision(services, seat.caller, approval_id, action, body)  # type: ignore[arg-type]
    return RedirectResponse("/console/vault?done=decided", 303)


def _days(form: Mapping[str, str]) -> float:
    try:
        return float(form.get("days", ""))
    except ValueError as error:
        raise Refused("`days` is a number") from error
