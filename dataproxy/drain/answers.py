"""The answer of a call as one JSON value in the normal form, whether it came whole or as a stream of events."""

from collections.abc import Iterator
from typing import Any

import msgspec

from dataproxy.drain.dialects import Dialect
from dataproxy.drain.runs import parsed_events

_ERROR_FIELDS = frozenset(("object", "message", "type", "param", "code"))


def read_answer(dialect: Dialect, body: bytes, stream: bool) -> dict[str, Any]:
    """``{"choices": [{"index", "message", "finish_reason"}], "usage", …}``, or ``{"error": …}``, or ``{"text": …}`` for neither.

    Events that are no JSON, such as one cut off, are kept in ``unparsed``.
    """
    if stream and not body.lstrip().startswith(b"{"):
        unparsed: list[str] = []
        answer = dialect.answer(dialect.joined(_events(dialect, body, unparsed)))
        return answer | ({"unparsed": unparsed} if unparsed else {})
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return {"text": body.decode(errors="replace")} if body else {}
    if not isinstance(value, dict):
        return {"text": body.decode(errors="replace")}
    if "message" in value and value.keys() <= _ERROR_FIELDS:
        return {"error": value}
    return dialect.answer(value)


def _events(dialect: Dialect, body: bytes, unparsed: list[str]) -> Iterator[dict[str, Any]]:
    for event in parsed_events(dialect, body):
        if isinstance(event, bytes):
            unparsed.append(event.decode(errors="replace"))
        else:
            yield event
