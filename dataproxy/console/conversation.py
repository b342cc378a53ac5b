"""A trajectory's events as the conversation that they were: what each turn heard that is new, thought, said and called. Pure.

An agent resends everything every turn; a turn shows only what its parent has not shown.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from atdp.events import Event, Span
from dataproxy.console.plain import Budget, Plain, one_line, plain

MOST_MESSAGES = 60
"""New messages shown of one turn: the last ones."""


_LABELS = (
    *(("worker", "worker"), ("lane", "lane"), ("release", "release"), ("retrieval", "retrieval"), ("dialect", "dialect")),
    *(("redaction", "redaction"), ("harness", "harness"), ("engine", "engine")),
)
"""Of an event's metadata, under which title."""
_SHOWN_OF_A_FINGERPRINT = 12


@dataclass(slots=True, frozen=True)
class Part:
    """A piece of a message: ``sort`` is text, reasoning, call, result or other; ``title`` a tool's name or a kind."""

    sort: str
    title: str
    body: Plain


@dataclass(slots=True, frozen=True)
class Message:
    """Who speaks, and what."""

    role: str
    parts: list[Part]


@dataclass(slots=True, frozen=True)
class Turn:
    """One event. ``heard`` is what is new to the model, ``repeated`` the messages before that; ``said`` one message a choice.

    ``branch``: it goes on from an earlier event than the one above it. Times are µs.
    """

    event_id: str
    kind: str
    seq: int
    started_us: int
    heard: list[Message]
    repeated: int
    hidden: int
    said: list[Message]
    branch: str | None
    failed: bool
    facts: list[tuple[str, str]]
    redactions: dict[str, int] = field(default_factory=dict)


class Reader:
    """Reads events in order; knows the conversation behind each that it has read. One page's ``budget`` bounds all texts."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._behind: dict[str, list[Any]] = {}
        self._above = ""

    def turn(self, event: Event) -> Turn:
        """The next event."""
        texts = _Texts(event.spans, self._budget)
        asked = [m for m in event.o.get("messages", []) if isinstance(m, dict)]
        known = _shared(self._behind.get(event.parent_id or "", []), asked)
        new = asked[known:]
        hidden = max(0, len(new) - MOST_MESSAGES)
        shown = enumerate(new[hidden:], known + hidden)
        heard = [_message(m, f"/request/messages/{i}", texts) for i, m in shown]
        answers = [m for m in event.a.get("messages", []) if isinstance(m, dict)]
        said = list(_said(event, answers, texts)) if event.kind == "model_call" else [_of_another_kind(event, texts)]
        self._behind[event.event_id] = [*asked, *answers[:1]]
        branch = event.parent_id if event.parent_id and self._above and event.parent_id != self._above else None
        if event.kind == "model_call":
            self._above = event.event_id
        status = event.y.get("status")
        failed = (isinstance(status, int) and status >= 400) or "error" in event.y
        counts: dict[str, int] = {}
        for span in event.spans:
            counts[span.kind] = counts.get(span.kind, 0) + 1
        facts = [(name, one_line(value)) for name, value in _facts(event)]
        return Turn(
            event.event_id, event.kind, event.seq, event.started_at, heard, known, hidden, said, branch, failed, facts, counts
        )


class _Texts:
    """Texts of one event with their redacted spans."""

    def __init__(self, spans: Sequence[Span], budget: Budget) -> None:
        self._spans = spans
        self._budget = budget

    def at(self, text: str, path: str) -> Plain:
        return plain(text, [s for s in self._spans if s.path == path or s.path.startswith(path + "/")], self._budget)

    def of(self, value: Any, path: str) -> Plain:
        """A string as it is; anything else as JSON."""
        if isinstance(value, str):
            return self.at(value, path)
        text = msgspec.json.format(msgspec.json.encode(value)).decode()
        inside = [msgspec.structs.replace(s, start=-1, end=-1) for s in self._spans if s.path.startswith(path)]
        return plain(text, inside, self._budget)


def _shared(behind: Sequence[Any], asked: Sequence[Any]) -> int:
    """The number of messages that ``asked`` has in common with what its parent had, from the start on."""
    count = 0
    for old, new in zip(behind, asked, strict=False):
        if (old.get("role"), old.get("content") or "") != (new.get("role"), new.get("content") or ""):
            break
        count += 1
    return count


def _message(message: Mapping[str, Any], path: str, texts: _Texts) -> Message:
    role = message.get("role")
    return Message(one_line(role, 40) if isinstance(role, str) else "?", list(_parts(message, path, texts)))


def _parts(message: Mapping[str, Any], path: str, texts: _Texts) -> Iterator[Part]:
    result = message.get("role") in ("tool", "function")
    title = one_line(str(message.get("tool_call_id") or message.get("name") or ""), 128) if result else ""
    said = message.get("content")
    if isinstance(said, str) and said:
        yield Part("result" if result else "text", title, texts.at(said, f"{path}/content"))
    for i, part in enumerate(said if isinstance(said, list) else []):
        place = f"{path}/content/{i}"
        if isinstance(part, dict) and isinstance(part.get("text"), str):
            yield Part("result" if result else "text", title, texts.at(part["text"], f"{place}/text"))
        else:
            sort = part.get("type") if isinstance(part, dict) else ""
            yield Part("other", one_line(str(sort), 40), texts.of(part, place))
    calls = message.get("tool_calls")
    for i, call in enumerate(calls if isinstance(calls, list) else []):
        yield _call(call, f"{path}/tool_calls/{i}", texts)


def _call(call: Any, path: str, texts: _Texts) -> Part:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        return Part("call", "?", texts.of(call, path))
    arguments = texts.of(function.get("arguments", ""), f"{path}/function/arguments")
    return Part("call", one_line(str(function.get("name", "?")), 128), arguments)


def _said(event: Event, answers: Sequence[Mapping[str, Any]], texts: _Texts) -> Iterator[Message]:
    thoughts = event.h.get("reasoning", [])
    for i, message in enumerate(answers):
        made = _message(message, f"/response/choices/{i}/message", texts)
        thought = thoughts[i] if isinstance(thoughts, list) and i < len(thoughts) else ""
        if isinstance(thought, str) and thought:
            body = texts.of(thought, f"/response/choices/{i}/message/reasoning_content")
            yield Message(made.role, [Part("reasoning", "", body), *made.parts])
        else:
            yield made
    for name in ("error", "relay_error", "text", "unparsed"):
        if name in event.y:
            part = Part("other", name, texts.of(event.y[name], f"/response/{name}"))
            yield Message("error" if "error" in name else "answer", [part])


def _of_another_kind(event: Event, texts: _Texts) -> Message:
    a, seen = dict(event.a), {name: value for name, value in event.o.items() if name != "messages"}
    shown = [Part("other", title, texts.of(value, "")) for title, value in (("saw", seen), ("thought", event.h)) if value]
    if event.kind == "tool_call" and isinstance(a.get("name"), str):
        title = one_line(a.pop("name"), 128)
        shown.append(Part("call", title, texts.of(a.pop("arguments", ""), "/a/arguments")))
        a.pop("call_id", None)
    shown += [Part("other", title, texts.of(value, "")) for title, value in (("did", a), ("outcome", event.y)) if value]
    return Message(event.kind, shown)


def _facts(event: Event) -> Iterator[tuple[str, str]]:
    m, y = event.m, event.y
    if m.get("erased"):
        yield "erased", "its content was erased; the log still proves that it was here"
    if m.get("model"):
        yield "model", str(m["model"])
    if names := sorted({str(span[0]) for choice in m.get("versions") or [] for span in choice}):
        yield "policy version", ", ".join(names)
    latency = m.get("latency_us") or {}
    for name, title in (("queue", "queue"), ("first_byte", "first byte"), ("total", "total")):
        if isinstance(latency.get(name), int):
            yield title, f"{latency[name] / 1000:,.0f} ms"
    usage = m.get("usage") or {}
    for name, title in (("prompt_tokens", "tokens in"), ("completion_tokens", "tokens out")):
        if name in usage:
            yield title, str(usage[name])
    if y.get("status") not in (None, 200):
        yield "status", str(y["status"])
    if y.get("delivery") not in (None, "complete"):
        yield "delivery", str(y["delivery"])
    if reasons := [str(reason) for reason in y.get("finish_reasons", []) if reason]:
        yield "ended by", ", ".join(reasons)
    if isinstance(m.get("tools"), dict):
        yield "tools", ", ".join(f"{name} {str(version)[:_SHOWN_OF_A_FINGERPRINT]}" for name, version in m["tools"].items())
    for name, title in _LABELS:
        if m.get(name):
            yield title, _word(m[name])


def _word(value: Any) -> str:
    """A label's value on one line: what it holds, if it is more than a word."""
    return " ".join(str(item) for item in value.values()) if isinstance(value, dict) else str(value)
