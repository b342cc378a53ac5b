"""One call while the fake engine answers it: what every dialect shares."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from tests.fakes.dialects.parts import Part, Splitter
from tests.fakes.generation import Model, Sample, render


class Refused(Exception):
    """The call is not one that the engine takes."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


@dataclass
class Running:
    """``body`` is the agent's, ``chat`` the same as a chat call, ``rid`` the id of the answer."""

    rid: str
    body: dict[str, Any]
    chat: dict[str, Any]
    model: Model
    order: Any
    samples: list[Sample] = field(default_factory=list)

    async def answer(self, index: int = 0) -> AsyncIterator[list[Part]]:
        """The parts of choice ``index`` as its tokens come, in characters; afterwards its sample is the last of ``samples``."""
        splitter, pending = Splitter(bool(self.chat.get("tools"))), b""
        sample = Sample(index)
        async for sample, byte in self.model.sample(self.rid, self.chat, index):  # the last one is kept
            pending += byte
            text, pending = decodable(pending, sample.finish_reason is not None)
            yield splitter.feed(text, sample.finish_reason is not None)
        self.samples.append(sample)
        if self.order is not None and self.order.record is not None:
            self.order.record.on_output(index, sample.output())

    async def whole(self, index: int = 0) -> list[Part]:
        """All parts of choice ``index``."""
        return [part async for parts in self.answer(index) for part in parts]

    @property
    def num_prompt(self) -> int:
        return len(render(self.chat["messages"]))

    @property
    def num_output(self) -> int:
        return sum(len(sample.ids) for sample in self.samples)


class Dialect(Protocol):
    """How one path speaks. ``as_chat`` raises Refused; ``error`` is the body of an error."""

    prefix: str

    def as_chat(self, body: dict[str, Any]) -> dict[str, Any]: ...
    def error(self, status: int, message: str) -> dict[str, Any]: ...
    async def stream(self, call: Running, send: Any) -> None: ...
    async def whole(self, call: Running, send: Any) -> None: ...


def decodable(pending: bytes, is_last: bool) -> tuple[str, bytes]:
    """The text that is whole so far, and the bytes of a character that is not."""
    try:
        return pending.decode(), b""
    except UnicodeDecodeError:
        return (pending.decode(errors="replace"), b"") if is_last else ("", pending)


def finish_reason(sample: Sample, parts: list[Part]) -> str | None:
    """What an OpenAI answer says: a call that stopped by itself is ``tool_calls``."""
    is_call = sample.finish_reason == "stop" and any(part.kind == "tool" for part in parts)
    return "tool_calls" if is_call else sample.finish_reason


async def start_stream(send: Any) -> None:
    headers = [(b"content-type", b"text/event-stream; charset=utf-8")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})


async def end_stream(send: Any) -> None:
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def send_data(send: Any, content: bytes, event: str | None = None) -> None:
    """One event of a stream, named or not, as one body message."""
    head = b"" if event is None else b"event: %b\n" % event.encode()
    await send({"type": "http.response.body", "body": head + b"data: " + content + b"\n\n", "more_body": True})


async def send_event(send: Any, document: Any, event: str | None = None) -> None:
    await send_data(send, json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode(), event)


async def send_json(send: Any, status: int, document: Any) -> None:
    raw = json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()
    headers = [(b"content-length", str(len(raw)).encode()), (b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": raw, "more_body": False})
