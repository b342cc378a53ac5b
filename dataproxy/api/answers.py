"""Bytes in and out: msgspec both ways, errors in one form."""

from typing import TypeVar

import msgspec
from fastapi import Response

from dataproxy.errors import Refused
from dataproxy.file_names import file_name

T = TypeVar("T")


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
    """The header of a download that is named by what it holds; see ``file_name``."""
    return {"content-disposition": f'attachment; filename="{file_name(*parts, ending=ending, at_us=at_us)}"'}
