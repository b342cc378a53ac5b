"""Pseudonyms for a request on its way to a model: asked by gateways alone. Values stay on the machine's socket."""

from typing import Annotated

import msgspec
from fastapi import APIRouter, Depends, Request, Response

from dataproxy.api.answers import error_answer, msgpack_answer
from dataproxy.api.identity import Caller, ServicesDep, require, require_operator
from dataproxy.errors import Refused
from dataproxy.pseudonym_types import ToPseudonymize
from dataproxy.redact import RedactionFailed

router = APIRouter(prefix="/v1/pseudonyms")
_PERMANENT = frozenset(("bulk", "data_url", "number"))
"""Reasons that the same request would meet again."""


async def _whole(request: Request) -> bytes:
    """However large a gateway lets a request be."""
    return await request.body()


@router.post("")
def post_pseudonyms(services: ServicesDep, caller: Caller, body: Annotated[bytes, Depends(_whole)]) -> Response:
    """The request with surrogates, and what leads back; 422 where it never can be, 503 where it could not be now."""
    require(caller, "gateway")
    require_operator(caller)
    try:
        asked = msgspec.msgpack.decode(body, type=ToPseudonymize)
        return msgpack_answer(services.pseudonyms.substitute(asked.tenant, asked.session_id, asked.body))
    except RedactionFailed as failed:
        return error_answer(422 if failed.reason in _PERMANENT else 503, failed.reason, "the request could not be pseudonymized")
    except msgspec.DecodeError as error:
        raise Refused("the body is not what this call takes") from error
