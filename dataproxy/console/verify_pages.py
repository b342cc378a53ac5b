"""Verify: that nothing was changed, with its progress; and evidence to take away."""

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse, StreamingResponse

from dataproxy.api.audit_routes import get_evidence
from dataproxy.api.identity import require, scope
from dataproxy.api.on_record import put_on_record
from dataproxy.console.audits import Audits
from dataproxy.console.rendering import render
from dataproxy.console.seat import Form, Seat, ServicesDep

router = APIRouter()


@router.get("/verify")
def get_verify(request: Request, services: ServicesDep, seat: Seat) -> Response:
    """The last audit, or the one that runs."""
    require(seat.caller, "reviewer")
    audits: Audits = request.app.state.audits
    template = "verify_piece.html" if "hx-request" in request.headers else "verify.html"
    verifier = services.checkpoints.signer.verifier
    return render(request, template, seat, audit=audits.last(scope(seat.caller)), verifier=verifier)


@router.post("/verify")
def post_verify(request: Request, services: ServicesDep, seat: Seat, _: Form) -> Response:
    """Start one."""
    require(seat.caller, "reviewer")
    put_on_record(services, seat.caller, [seat.caller.tenant], "audit", "verify", seat.purpose)
    audits: Audits = request.app.state.audits
    audits.begin(scope(seat.caller))
    return RedirectResponse("/console/verify", 303)


@router.get("/evidence")
def get_bundle(
    services: ServicesDep, seat: Seat, tenant: str = "", trajectory: str | None = None, session: str | None = None
) -> StreamingResponse:
    """A zip file that a program in it checks without us."""
    return get_evidence(services, seat.caller, seat.purpose, tenant or None, None, session or None, trajectory or None)
