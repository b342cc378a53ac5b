"""Bytes in and out: msgspec both ways, errors in one form."""

import re
from datetime import UTC, datetime
from typing import TypeVar

import msgspec
from fastapi import Response

from dataproxy.errors import Refused

T = TypeVar("T")
_UNSAFE = re.compile("[^A-Za-z0-9._-]+")


def parse(body: bytes, type_: type[T]) -> T:
    """The request in ``body``.

    Raises:
        Refused: it is not JSON, or not of this form.
    """
    try:
        return msgspec.json.decode(body, type=type_)
    except msgspec.DecodeError as error:
        raise Refused(f"the body is not what this call takes: {error}") from error


def json_answer(value: object, status: int = 200) -> Response:
    """``value`` as JSON."""
    return Response(msgspec.json.encode(value), status, media_type="application/json")


def msgpack_answer(value: object) -> Response:
    """``value`` as msgpack."""
    return Response(msgspec.msgpack.encode(value), media_type="application/msgpack")


def error_answer(status: int, code: str, message: str) -> Response:
    """An error in OpenAI's form."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    return json_answer({"error": {"message": message, "type": kind, "code": code}}, status)


def attachment(*parts: str, ending: str, at_us: int) -> dict[str, str]:
    """The header of a download named ``headrace-PARTS-DAY.ending``; the day is UTC's at ``at_us`` (UTC µs).

    Of each part its first 80 characters count; all but ASCII letters, digits, ``.``, ``_`` and ``-`` become ``_``.
    """
    day = datetime.fromtimestamp(at_us / 1e6, UTC).strftime("%Y%m%d")
    kept = (_UNSAFE.sub("_", part[:80]).strip("._-") for part in parts)
    return {"content-disposition": f'attachment; filename="{"-".join(("headrace", *filter(None, kept), day))}.{ending}"'}
