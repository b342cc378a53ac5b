"""The console as an app of its own, mounted at /console. The only place that turns errors into pages."""

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import RedirectResponse
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles

from atdp.errors import AtdpError
from dataproxy.console import (
    consent_pages,
    governance_pages,
    learning_pages,
    list_exports,
    live_pages,
    order_pages,
    party_pages,
    queue_pages,
    review_pages,
    signing,
    trajectory_pages,
    verify_pages,
    version_pages,
    view_pages,
)
from dataproxy.console.audits import Audits
from dataproxy.console.choices import NotAChoice
from dataproxy.console.rendering import ASSETS, read_templates, render
from dataproxy.console.seat import ForeignForm, Guarded, NotSeated, Seat, StaleForm, cookie_name, sittings_of
from dataproxy.console.sittings import Sittings, Throttle
from dataproxy.console.totals import Totals
from dataproxy.console.words import REASONS, TERMS
from dataproxy.errors import NotAllowed, NotFound, Refused
from dataproxy.redact import RedactionFailed
from dataproxy.services import Services

PAGES = (
    signing,
    trajectory_pages,
    view_pages,
    list_exports,
    review_pages,
    queue_pages,
    governance_pages,
    consent_pages,
    party_pages,
    verify_pages,
    learning_pages,
    version_pages,
    order_pages,
    live_pages,
)
_STATUS: dict[type[Exception], int] = {NotAllowed: 403, NotFound: 404, Refused: 400, AtdpError: 400, RedactionFailed: 400}
_HEADINGS: dict[type[Exception], str] = {
    StaleForm: "This form is out of date",
    ForeignForm: "This form came from another site",
    NotAChoice: "There is no such choice",
}
_OTHERS = {403: "Not with this key", 404: "Not found"}


def create_console(services: Services) -> FastAPI:
    """The console over ``services``."""
    read_templates()
    app = FastAPI(title="Headrace console", openapi_url=None)
    app.state.services = services
    if services is not None:
        app.state.sittings = Sittings(services.keys.find_hash, services.now_us)
        app.state.throttle = Throttle(services.now_us)
        app.state.audits = Audits(services)
        app.state.pace = live_pages.Pace()
        app.state.totals = Totals(services)
    app.add_middleware(Guarded)
    app.mount("/assets", StaticFiles(directory=ASSETS), name="assets")
    app.add_api_route("/", _home, methods=["GET"])
    app.add_api_route("/terms", _terms, methods=["GET"])
    for pages in PAGES:
        app.include_router(pages.router)
    app.add_exception_handler(NotSeated, _sign_in)
    for kind in (*_STATUS, HTTPException, RequestValidationError):
        app.add_exception_handler(kind, _fault)
    return app


async def _home(seat: Seat) -> Response:
    return RedirectResponse("/console/learning" if seat.caller.role == "trainer" else "/console/trajectories", 303)


async def _terms(request: Request, seat: Seat) -> Response:
    return render(request, "terms.html", seat, terms=TERMS, reasons=REASONS)


async def _sign_in(request: Request, _: Exception) -> Response:
    if "hx-request" in request.headers:  # a piece of a page: the whole page goes to the form
        return Response(status_code=401, headers={"hx-redirect": "/console/sign-in"})
    return RedirectResponse("/console/sign-in", 303)


async def _fault(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 0
    status = status or next((code for kind, code in _STATUS.items() if isinstance(error, kind)), 400)
    seat = sittings_of(request).find(request.cookies.get(cookie_name(request), ""))
    what = next((said for kind, said in _HEADINGS.items() if isinstance(error, kind)), _OTHERS.get(status, "That did not work"))
    if isinstance(error, RedactionFailed):
        why = f"A text could not be redacted for certain ({error.reason}); shorten it or leave it out."
    else:
        why = "There is no such page." if status == 404 and isinstance(error, HTTPException) else str(error)
    if isinstance(error, RequestValidationError):
        names = ", ".join(sorted({f"`{one['loc'][-1]}`" for one in error.errors()}))
        why = f"{names} in the address is not of the form that this page takes."
    choices = error.choices if isinstance(error, NotAChoice) else []
    return render(request, "fault.html", seat, status, what=what, why=why, choices=choices)
