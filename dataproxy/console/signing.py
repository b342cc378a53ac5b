"""Signing in with a key and a purpose, and out."""

import hmac
import secrets
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import RedirectResponse

from dataproxy.api.on_record import put_on_record
from dataproxy.client.types import KeyInfo
from dataproxy.console.rendering import render
from dataproxy.console.seat import Form, Seat, ServicesDep, cookie_name, fields_of, is_secure, sittings_of
from dataproxy.console.sittings import Throttle
from dataproxy.services import Services
from dataproxy.store.keys import OPERATOR, hash_key
from dataproxy.store.scope import EVERYBODY, Scope, bind

router = APIRouter()
ROLES = ("reviewer", "trainer", "admin")
_LEAST_PURPOSE, _MOST_PURPOSE = 3, 500
_FORM_COOKIE = "headrace-form"
Fields = Annotated[dict[str, str], Depends(fields_of)]


@router.get("/sign-in")
def get_sign_in(request: Request) -> Response:
    """The form."""
    return _form(request)


@router.post("/sign-in")
def post_sign_in(request: Request, services: ServicesDep, fields: Fields) -> Response:
    """Open a sitting."""
    throttle: Throttle = request.app.state.throttle
    address = request.headers.get("x-forwarded-for", "")
    if wait_s := throttle.wait_s(address):
        answer = _form(request, f"Too many tries. Try again in {wait_s} s.", 429)
        answer.headers["retry-after"] = str(wait_s)
        return answer
    if not hmac.compare_digest(request.cookies.get(_FORM_COOKIE, "-").encode(), fields.get("csrf", "").encode("utf-8", "replace")):
        return _form(request, "This page was open for too long. Try again.", 403)
    key, purpose = fields.get("key", "").strip(), " ".join(fields.get("purpose", "").split())
    caller = services.keys.find(key, services.now_us())
    if caller is None or caller.role not in ROLES:
        throttle.failed(address)
        why = (
            "No such key, or it was revoked or has expired."
            if caller is None
            else f"A key of role {caller.role} does not open the console."
        )
        return _form(request, why, 401 if caller is None else 403, purpose)
    if not _LEAST_PURPOSE <= len(purpose) <= _MOST_PURPOSE:
        return _form(request, f"Say in {_LEAST_PURPOSE} to {_MOST_PURPOSE} characters why you read; it stands on the record.", 400)
    return _seated(request, services, caller, hash_key(key), purpose)


@router.post("/sign-out")
def post_sign_out(request: Request, services: ServicesDep, seat: Seat, _: Form) -> Response:
    """Close the sitting; that stands on the record, as its beginning does."""
    name = cookie_name(request)
    sittings_of(request).end(request.cookies[name])
    put_on_record(services, seat.caller, [seat.caller.tenant], "console", "sign-out", seat.purpose)
    answer = RedirectResponse("/console/sign-in", 303)
    answer.delete_cookie(name, path="/console")
    return answer


def _seated(request: Request, services: Services, caller: KeyInfo, key_hash: str, purpose: str) -> Response:
    bind(EVERYBODY if caller.tenant == OPERATOR else Scope(caller.tenant))
    purpose = services.redactors.of(caller.tenant).redact_text(purpose).text
    put_on_record(services, caller, [caller.tenant], "console", "sign-in", purpose)
    secret = sittings_of(request).begin(key_hash, caller, purpose)
    answer = RedirectResponse("/console/", 303)
    # without an age: it ends with the browser, as the sitting does by its own clock
    answer.set_cookie(cookie_name(request), secret, path="/console", secure=is_secure(request), httponly=True, samesite="strict")
    answer.delete_cookie(_FORM_COOKIE, path="/console")
    return answer


def _form(request: Request, fault: str = "", status: int = 200, purpose: str = "") -> Response:
    token = secrets.token_urlsafe(24)
    answer = render(request, "sign_in.html", None, status, fault=fault, token=token, purpose=purpose)
    answer.set_cookie(_FORM_COOKIE, token, 900, path="/console", secure=is_secure(request), httponly=True, samesite="strict")
    return answer
