"""Who asks: the bearer key, its role, and what that role may do. From here on the request is bound to its caller's tenant."""

from typing import Annotated

from fastapi import Depends, Request

from dataproxy.api.on_record import Reader, purpose_of
from dataproxy.client.types import KeyInfo
from dataproxy.errors import NotAllowed, Refused, Unauthenticated
from dataproxy.services import Services
from dataproxy.store.keys import OPERATOR
from dataproxy.store.scope import EVERYBODY, Scope, bind

_MAX_BODY_BYTES = 8 << 20


def services_of(request: Request) -> Services:
    """The services that ``create_app`` was given."""
    services: Services = request.app.state.services
    return services


async def caller_of(request: Request) -> KeyInfo:
    """The holder of the request's bearer key; the store shows the request this tenant's rows only (an operator: everybody's).

    Raises:
        Unauthenticated: there is none, or it is unknown, revoked or expired.
        Refused: the purpose is too long.
    """
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not key:
        raise Unauthenticated("send your key as `Authorization: Bearer hr_…`")
    services = services_of(request)
    info = services.keys.find(key.strip(), services.now_us())
    if info is None:
        raise Unauthenticated("this API key is wrong, revoked or expired; `headrace keys` makes a new one")
    request.scope["reader"] = Reader(info, purpose_of(request.headers.get("x-headrace-purpose", "")))
    bind(EVERYBODY if info.tenant == OPERATOR else Scope(info.tenant))
    return info


async def body_of(request: Request) -> bytes:
    """The request's body.

    Raises:
        Refused: it is larger than any request of this API.
    """
    body = await request.body()
    if len(body) > _MAX_BODY_BYTES:
        raise Refused(f"the body has {len(body)} bytes; at most {_MAX_BODY_BYTES} are taken")
    return body


ServicesDep = Annotated[Services, Depends(services_of)]
Caller = Annotated[KeyInfo, Depends(caller_of)]
Body = Annotated[bytes, Depends(body_of)]


def require(caller: KeyInfo, *roles: str) -> None:
    """Let only ``roles`` (and admin) pass.

    Raises:
        NotAllowed: the caller has another role.
    """
    if caller.role != "admin" and caller.role not in roles:
        raise NotAllowed(f"a key of role {caller.role} may not do this; it needs {' or '.join((*roles, 'admin'))}")


def require_operator(caller: KeyInfo) -> None:
    """Let only keys without a tenant pass: what they do touches every tenant.

    Raises:
        NotAllowed: the caller belongs to a tenant.
    """
    if caller.tenant != OPERATOR:
        raise NotAllowed("this touches every tenant; it needs an operator's key")


def scope(caller: KeyInfo) -> str | None:
    """The tenant whose things the caller sees; None for an operator, who sees all."""
    return None if caller.tenant == OPERATOR else caller.tenant
