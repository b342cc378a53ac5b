"""Saved views: the filters of the list under a name, kept from the list and taken away there."""

from urllib.parse import urlencode

from fastapi import APIRouter, Response
from fastapi.responses import RedirectResponse

from dataproxy.api import view_routes
from dataproxy.api.identity import require, scope
from dataproxy.client.trajectory_types import SavedView
from dataproxy.console.filters import asked, fields_of, query_of
from dataproxy.console.seat import Form, Seat, ServicesDep
from dataproxy.store.statistics import redacted_kinds

router = APIRouter()


@router.post("/views")
def post_view(services: ServicesDep, seat: Seat, form: Form) -> Response:
    """Keep the filters that the list was asked by."""
    require(seat.caller, "reviewer")
    with services.database.read() as connection:
        query = query_of(asked(form), redacted_kinds(connection, scope(seat.caller)))
    kept = view_routes.keep_view(services, seat.caller, SavedView(form.get("title", ""), query))
    return RedirectResponse(f"/console/trajectories?{urlencode({**fields_of(kept.query), 'done': 'kept'})}", 303)


@router.post("/views/{view_id}/remove")
def post_removal(services: ServicesDep, seat: Seat, _: Form, view_id: str) -> Response:
    """Take one away."""
    view_routes.delete_view(services, seat.caller, view_id)
    return RedirectResponse("/console/trajectories?done=removed", 303)
