"""A span as the mappings read it: attributes as plain values, whatever encoding it came in."""

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec


@dataclass(slots=True, frozen=True)
class SpanEvent:
    """Something that happened in a span."""

    name: str
    attributes: dict[str, Any]


@dataclass(slots=True, frozen=True)
class OtelSpan:
    """Ids are lower-case hex; times UTC ns; ``error`` is None unless the span's status is an error, then its message.

    ``resource`` are the attributes of what sent it, ``scope`` the instrumentation's name and version.
    """

    trace_id: str
    span_id: str
    parent_id: str
    name: str
    start_ns: int
    end_ns: int
    attributes: dict[str, Any]
    events: list[SpanEvent] = field(default_factory=list)
    error: str | None = None
    resource: dict[str, Any] = field(default_factory=dict)
    scope: str = ""
    schema_url: str = ""

    def text(self, *names: str) -> str:
        """The first of ``names`` that is a text and not empty, of the span or of its resource; "" for none."""
        for name in names:
            for attributes in (self.attributes, self.resource):
                if isinstance(value := attributes.get(name), str) and value:
                    return value
        return ""

    def parsed(self, name: str) -> Any:
        """An attribute that may be JSON in a text, as conventions have it, or structured already; None without it."""
        return parsed(self.attributes.get(name))

    def indexed(self, prefix: str) -> list[dict[str, Any]]:
        """``<prefix>.<i>.<rest>`` attributes as dictionaries of their rest, by ``i``."""
        return indexed(self.attributes, prefix)


def parsed(value: Any) -> Any:
    """``value``, read as JSON if it is a text of it."""
    if isinstance(value, str):
        with suppress(msgspec.DecodeError, RecursionError):
            return msgspec.json.decode(value)
    return value


def indexed(flat: dict[str, Any], prefix: str) -> list[dict[str, Any]]:
    """Entries ``<prefix>.<i>.<rest>`` of ``flat`` as dictionaries of their rest, by ``i``."""
    found: dict[int, dict[str, Any]] = {}
    for name, value in flat.items():
        if name.startswith(f"{prefix}."):
            index, _, rest = name[len(prefix) + 1 :].partition(".")
            if index.isdigit():
                found.setdefault(int(index), {})[rest] = value
    return [found[index] for index in sorted(found)]
