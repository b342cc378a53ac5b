"""JSON of events, both ways. What this version does not know survives: fields of the event, and fields of its spans.

Inside ``o h a y m`` and ``r`` everything is open anyway. Unknown fields of an event go to ``extra``; those of its spans to
``extra["spans"]``, by the span's place, and back.
"""

from typing import Any

import msgspec

from atdp.errors import InvalidEvent
from atdp.events import Event, Span
from atdp.validate import check, named_field

_KNOWN = frozenset(Event.__struct_fields__) - {"extra"}
_SPAN = frozenset(Span.__struct_fields__)
_object = msgspec.json.Decoder(dict[str, Any])


def encode_event(event: Event) -> bytes:
    """JSON of ``event``, unknown fields put back where they stood."""
    body = msgspec.to_builtins(event)
    extra = dict(body.pop("extra", {}))
    of_spans = extra.pop("spans", {})
    for place, unknown in of_spans.items() if isinstance(of_spans, dict) else ():
        body["spans"][int(place)] |= unknown
    return msgspec.json.encode({**extra, **body})


def decode_event(data: bytes | msgspec.Raw) -> Event:
    """The event in JSON ``data``.

    Raises:
        InvalidEvent: not JSON, or against a rule of the protocol; ``field`` says where.
    """
    try:
        body = _object.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidEvent(f"an event must be a JSON object: {error}") from error
    return event_of(body)


def event_of(body: dict[str, Any]) -> Event:
    """The event that the JSON object ``body`` is; raises as ``decode_event`` does."""
    extra = {key: value for key, value in body.items() if key not in _KNOWN}
    if of_spans := _unknown_of_spans(body.get("spans")):
        extra["spans"] = of_spans
    try:
        event = msgspec.convert({key: value for key, value in body.items() if key in _KNOWN} | {"extra": extra}, Event)
    except msgspec.ValidationError as error:
        field, message = named_field(str(error))
        raise InvalidEvent(message, field) from error
    check(event)
    return event


def _unknown_of_spans(spans: Any) -> dict[str, Any]:
    """Place → fields that spans of this version don't have."""
    found = {}
    for place, span in enumerate(spans if isinstance(spans, list) else ()):
        unknown = {key: value for key, value in span.items() if key not in _SPAN} if isinstance(span, dict) else {}
        if unknown:
            found[str(place)] = unknown
    return found
