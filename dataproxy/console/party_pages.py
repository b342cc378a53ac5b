"""Tenants and keys: who is there, who may do what. Every action is the API's own."""

import msgspec
from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from dataproxy.api import admin_routes, tenant_routes
from dataproxy.api.identity import scope
from dataproxy.client.trajectory_types import TenantRow
from dataproxy.client.types import IssuedKey, KeyInfo, NewKey
from dataproxy.console.api_calls import answered, tenant_of
from dataproxy.console.rendering import render
from dataproxy.console.seat import Form, Seat, ServicesDep
from dataproxy.errors import Refused

router = APIRouter()
_SHOWN = 200


@router.get("/tenants")
def get_tenants(request: Request, services: ServicesDep, seat: Seat) -> Response:
    """Who is there; a tenant's admin sees its own."""
    tenants = answered(tenant_routes.get_tenants(services, seat.caller, seat.purpose), list[TenantRow])
    return render(request, "tenants.html", seat, tenants=tenants[:_SHOWN], num=len(tenants))


@router.get("/keys")
def get_keys(request: Request, services: ServicesDep, seat: Seat) -> Response:
    """All keys, newest first; their texts are nowhere."""
    keys = answered(admin_routes.get_keys(services, seat.caller, seat.purpose), list[KeyInfo])[::-1]
    return render(request, "keys.html", seat, keys=keys[:_SHOWN], num=len(keys), issued=None, own=scope(seat.caller) or "")


@router.post("/keys")
def post_key(request: Request, services: ServicesDep, seat: Seat, form: Form) -> Response:
    """Issue one; this answer alone shows it."""
    try:
        fields = {
            "tenant": tenant_of(seat.caller, form),
            "agent": form.get("agent", "").strip(),
            "role": form.get("role", ""),
        }
        new = msgspec.convert(fields, NewKey)
    except msgspec.ValidationError as error:
        raise Refused(f"there is no such role: {error}") from error
    issued = answered(admin_routes.post_key(services, seat.caller, msgspec.json.encode(new)), IssuedKey)
    keys = answered(admin_routes.get_keys(services, seat.caller, seat.purpose), list[KeyInfo])[::-1]
    return render(request, "keys.html", seat, keys=keys[:_SHOWN], num=len(keys), issued=issued, own=scope(seat.caller) or "")


@router.post("/keys/{key_id}/revoke")
def post_revoke(services: ServicesDep, seat: Seat, _: Form, key_id: str) -> Response:
    """Revoke one for good."""
    admin_routes.delete_key(services, seat.caller, key_id)
    return RedirectResponse("/console/keys?done=revoked", 303)
