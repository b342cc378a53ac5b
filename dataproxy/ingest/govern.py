"""Redacts an event and gives it the store's form. Nothing of it passes unredacted; what cannot be redacted for certain raises.

Messages and tools become contents, as those of model calls do, so that a history is stored once however it came.
"""

import re
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from atdp.events import Event, Span
from dataproxy.digests import KeyedDigests, named_session
from dataproxy.drain.payloads import conceal
from dataproxy.drain.redaction import Redactor
from dataproxy.redact import Exchange
from dataproxy.store.events import Content, StoredEvent

_PARTS: Final = ("o", "h", "a", "y", "r", "m")
_NAMES: Final = ("event_id", "session_id", "trajectory_id", "parent_id", "agent")
_MAX_NAME: Final = 128
_OPAQUE: Final = re.compile(r"(?:[a-z]{1,8}[-_])?[0-9a-f]{8}(?:-?[0-9a-f]{4}){3}-?[0-9a-f]{12}(?:-?[0-9a-f]{16})?")
"""A UUID, a trace, ours with their prefixes and MACs: random digits in which a rule may see a number that nobody has."""


@dataclass(slots=True, frozen=True)
class Governed:
    """A redacted event; ``changed`` names those of its ids in which redaction found something."""

    stored: StoredEvent
    changed: frozenset[str]


def govern(event: Event, redactor: Redactor, digests: KeyedDigests) -> Governed:
    """``event`` as it may be stored.

    Raises:
        RedactionFailed: it cannot be redacted for certain.
    """
    open_parts: dict[str, Any] = {name: getattr(event, name) for name in _PARTS} | {"extra": event.extra}
    if event.spans:
        open_parts["m"] = {**event.m, "spans_given": msgspec.to_builtins(event.spans)}
    tools = event.o.get("tools")
    concealed = {name: conceal(part, digests) for name, part in open_parts.items() if name != "r"}
    concealed["r"] = [conceal(reward, digests) for reward in event.r]
    if tools is not None:
        concealed["o"]["tools"] = tools
    strings = {name: value for name in _NAMES if (value := getattr(event, name)) and not _OPAQUE.fullmatch(value)}
    redacted = redactor.redact_exchange(Exchange(concealed, None, strings=strings))
    parts: Any = redacted.request  # of the shape that went in
    contents = _Contents(digests, [_from_event(span) for span in redacted.spans])
    o, a = contents.moved("o", parts["o"]), contents.moved("a", parts["a"])
    changed = frozenset(name for name, text in redacted.strings.items() if text != strings[name])
    ids = {name: _digested(name, strings[name], digests) for name in changed}
    kept = {name: parts[name] for name in ("h", "y", "r", "m", "extra")}
    subject = digests.of(b"subject", event.subject.encode()).hex() if event.subject else ""
    if redacted.version:
        kept["m"] = {**kept["m"], "redaction": redacted.version}
    clean = msgspec.structs.replace(event, **kept, **ids, o=o, a=a, subject=subject, spans=[], seq=0)
    model = parts["m"].get("model")
    stored = StoredEvent(
        event=clean,
        model=model[:_MAX_NAME] if isinstance(model, str) else "",
        status=_status(parts["y"].get("status")),
        contents=contents.found,
        spans=contents.left,
    )
    return Governed(stored, changed)


class _Contents:
    """Collects messages and tools and deals the spans out to them; what is left belongs to the event."""

    def __init__(self, digests: KeyedDigests, spans: list[Span]) -> None:
        self._digests = digests
        self.left = spans
        self.found: list[Content] = []

    def moved(self, part: str, body: dict[str, Any]) -> dict[str, Any]:
        """``body`` with its messages and tools named instead of there."""
        body = dict(body)
        if "messages" in body:
            body["messages"] = [self._add(message, f"/{part}/messages/{i}") for i, message in enumerate(body["messages"])]
        if part == "o" and "tools" in body:
            body["tools"] = self._add(body["tools"], "/o/tools")
        return body

    def _add(self, value: Any, path: str) -> str:
        data = msgspec.json.encode(value)
        digest = self._digests.of(b"content", data)
        mine = [span for span in self.left if span.path == path or span.path.startswith(path + "/")]
        self.left = [span for span in self.left if span not in mine] if mine else self.left
        spans = [msgspec.structs.replace(span, path=span.path[len(path) :]) for span in mine]
        self.found.append(Content(digest, data, spans))
        return digest.hex()


def _digested(name: str, value: str, digests: KeyedDigests) -> str:
    return named_session(digests, value, "") if name == "session_id" else f"digest-{digests.of(b'name', value.encode()).hex()}"


def _from_event(span: Span) -> Span:
    """Paths start at the event: ``/request/o/x`` → ``/o/x``, ``/strings/agent`` → ``/agent``."""
    return msgspec.structs.replace(span, path=span.path.removeprefix("/request").removeprefix("/strings"))


def _status(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1000 else None
