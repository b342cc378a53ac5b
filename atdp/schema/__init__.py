"""The JSON Schema of an event (draft 2020-12), made from the structs of ``atdp.events`` and kept beside them in ``event.json``.

``python -m atdp.schema`` prints it. What a schema cannot say (times in order, arrays of one length) is in ``atdp.validate``.
"""

from pathlib import Path
from typing import Any, Final

import msgspec

from atdp import PROTOCOL_VERSION
from atdp.events import KINDS, Event, TokenRecord

FILE: Final = Path(__file__).with_name("event.json")
_ROOT = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": f"urn:atdp:event:{PROTOCOL_VERSION}"}
_KIND_NOTE = f"Known: {', '.join(sorted(KINDS))}. Readers keep events of kinds that they don't know."
_PART_NOTES = {
    "o": "Observable state: what the policy saw.",
    "h": "Hidden state: reasoning, plan, scratch. Absent for a plain POMDP record.",
    "a": "Action: generated messages, tool calls; `tokens` are the engine's exact ones.",
    "y": "Outcome: finish reasons, tool result or error, status, delivery.",
    "r": "Rewards known at once; a later one is an event of kind reward.",
    "m": "Metadata: model, policy versions, sampling, harness, latency, usage, cost.",
    "spans": "Values that redaction took out: kind and place, never the value.",
}


def event_schema() -> dict[str, Any]:
    """The schema, made anew."""
    _, parts = msgspec.json.schema_components([Event, TokenRecord])
    event: dict[str, Any] = parts.pop("Event")
    properties = event["properties"]
    del properties["extra"]  # unknown fields stand in the event itself
    properties["kind"]["description"] = _KIND_NOTE
    for name, note in _PART_NOTES.items():
        properties[name]["description"] = note
    messages = {"messages": {"type": "array"}}
    properties["o"]["properties"] = messages
    properties["a"]["properties"] = {**messages, "tokens": {"type": "array", "items": {"$ref": "#/$defs/TokenRecord"}}}
    return {**_ROOT, **event, "title": "ATDP event", "$defs": parts}


def text_of_schema() -> str:
    """The schema as it stands in ``event.json``."""
    return msgspec.json.format(msgspec.json.encode(event_schema()), indent=2).decode() + "\n"
