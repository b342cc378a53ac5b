"""Between a browser and a page: the sitting of its cookie, forms that come from our own pages, and headers of every answer."""

from collections.abc import Mapping
from typing import Annotated
from urllib.parse import parse_qsl, urlsplit

from fastapi import Depends, Request
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dataproxy.api.identity import services_of
from dataproxy.api.on_record import Reader
from dataproxy.console.choices import only_known
from dataproxy.console.sittings import Sitting, Sittings
from dataproxy.errors import NotAllowed, Refused
from dataproxy.services import Services
from dataproxy.store.keys import OPERATOR
from dataproxy.store.scope import EVERYBODY, bind
from dataproxy.store.scope import Scope as Rows

_MOST_FORM_BYTES = 64 << 10
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
_STALE = (
    "Nothing was done: the page with this form belongs to another sitting, such as one before you signed in anew. "
    "Go back, load that page again, and send the form from there."
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


class NotSeated(Exception):
    """Nobody signed in, or the sitting is over."""


class StaleForm(NotAllowed):
    """A form of a page that belongs to another sitting, or to none: nothing was done."""


class ForeignForm(NotAllowed):
    """A form that the page of another site sent: nothing was done."""


def is_secure(request: Request) -> bool:
    """Whether the browser came by HTTPS, as the relay in front says."""
    return request.headers.get("x-forwarded-proto") == "https"


def cookie_name(request: Request) -> str:
    """By HTTPS one that only HTTPS can set."""
    return "__Secure-headrace" if is_secure(request) else "headrace"


def sittings_of(request: Request) -> Sittings:
    """The open sittings."""
    sittings: Sittings = request.app.state.sittings
    return sittings


async def seat_of(request: Request) -> Sitting:
    """Who sits there; the store shows the request this tenant's rows only (an operator: everybody's).

    Raises:
        NotSeated: nobody does.
        NotAChoice: the page's address has a field that the page does not know.
    """
    sitting = sittings_of(request).find(request.cookies.get(cookie_name(request), ""))
    if sitting is None:
        raise NotSeated
    request.scope["reader"] = Reader(sitting.caller, sitting.purpose, sitting.pages)
    bind(EVERYBODY if sitting.caller.tenant == OPERATOR else Rows(sitting.caller.tenant))
    if request.method == "GET":
        only_known(request)
    return sitting


Seat = Annotated[Sitting, Depends(seat_of)]
ServicesDep = Annotated[Services, Depends(services_of)]


async def fields_of(request: Request) -> dict[str, str]:
    """The fields of a posted form.

    Raises:
        ForeignForm: another site's page sent it.
        Refused: it is larger than any form of ours.
    """
    origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site", "same-origin")
    if site not in ("same-origin", "none") or (origin is not None and urlsplit(origin).netloc != request.headers.get("host")):
        raise ForeignForm("Nothing was done. Open the page of this console that has the form, and send it from there.")
    size = request.headers.get("content-length", "")
    if not size.isdigit() or int(size) > _MOST_FORM_BYTES:
        raise Refused("the form is too large")
    pairs = parse_qsl((await request.body()).decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=100)
    return {name: value.replace("\r\n", "\n") for name, value in pairs}


async def form_of(request: Request, seat: Seat) -> Mapping[str, str]:
    """The fields of a form that one of this sitting's pages sent.

    Raises:
        StaleForm: it did not.
    """
    fields = await fields_of(request)
    if not seat.accepts(fields.get("csrf", "")):
        raise StaleForm(_STALE)
    return fields


Form = Annotated[Mapping[str, str], Depends(form_of)]


class Guarded:
    """Puts the headers on every answer; what shows anything is never kept by a cache."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(_HEADERS)
                if "/assets/" not in scope["path"] or message["status"] != 200:
                    headers["cache-control"] = "no-store"
                else:
                    headers["cache-control"] = "public, max-age=31536000, immutable"
            await send(message)

        await self._app(scope, receive, guarded)
