"""One event a line, as the protocol has it; exact tokens under ``a.tokens``. What ``atdp.codec`` reads back."""

import msgspec

from atdp.codec import encode_event
from atdp.exports.types import ExportedEvent


def event_line(item: ExportedEvent) -> bytes:
    """``item`` as a line without its end."""
    event = item.event
    if item.tokens:
        event = msgspec.structs.replace(event, a={**event.a, "tokens": msgspec.to_builtins(item.tokens)})
    if item.decisions:
        event = msgspec.structs.replace(event, m={**event.m, "training": {str(k): v for k, v in item.decisions.items()}})
    return encode_event(event)
