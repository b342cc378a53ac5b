"""Saved views of the list of trajectories: a tenant's own, shared by its reviewers. That one is kept or taken away is on record."""

import msgspec
from fastapi import APIRouter, Response

from dataproxy.api.answers import json_answer, parse
from dataproxy.api.identity import Body, Caller, ServicesDep, require
from dataproxy.api.on_record import Purpose, put_on_record
from dataproxy.client.trajectory_types import SavedView
from dataproxy.client.types import KeyInfo
from dataproxy.errors import Refused
from dataproxy.services import Services
from dataproxy.store.access import record_access
from dataproxy.store.views import add_view, list_views, remove_view

router = APIRouter(prefix="/v1/views")
_MOST_TITLE = 80


@router.get("")
def get_views(services: ServicesDep, caller: Caller, purpose: Purpose) -> Response:
    """Every one of the caller's tenant, by title."""
    require(caller, "reviewer")
    with services.database.read() as connection:
        views = list_views(connection, caller.tenant)
    put_on_record(services, caller, [caller.tenant], "views", "", purpose)
    return json_answer(views)


@router.post("")
def post_view(services: ServicesDep, caller: Caller, body: Body) -> Response:
    """Keep one."""
    require(caller, "reviewer")
    return json_answer(keep_view(services, caller, parse(body, SavedView)))


@router.delete("/{view_id}")
def delete_view(services: ServicesDep, caller: Caller, view_id: str) -> Response:
    """Take one away."""
    require(caller, "reviewer")
    with services.database.write() as connection:
        remove_view(connection, caller.tenant, view_id)
        record_access(connection, caller, caller.tenant, "view removed", view_id, services.now_us())
    return json_answer({"view_id": view_id, "removed": True})


def keep_view(services: Services, caller: KeyInfo, given: SavedView) -> SavedView:
    """``given``, as kept: its title and the text that it looks for are redacted.

    Raises:
        Refused: it has no title, or too long a one.
        RedactionFailed: a text could not be redacted for certain.
    """
    title = " ".join(given.title.split())
    if not 0 < len(title) <= _MOST_TITLE:
        raise Refused(f"a saved view needs a `title` of at most {_MOST_TITLE} characters")
    redactor = services.redactors.of(caller.tenant)
    text, session = given.query.text, given.query.session
    if session and redactor.redact_text(session).text != session:  # a name of somebody: kept as the store names it
        session = f"digest-{services.digests(caller.tenant).of(b'session', session.encode()).hex()}"
    query = msgspec.structs.replace(given.query, text=redactor.redact_text(text).text if text else "", session=session)
    with services.database.write() as connection:
        view = SavedView(redactor.redact_text(title).text, query)
        kept = add_view(connection, caller.tenant, view, caller.key_id, services.now_us())
        record_access(connection, caller, caller.tenant, "view kept", kept.view_id, services.now_us())
    return kept
