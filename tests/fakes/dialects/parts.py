"""What SGLang's parsers make of a reply: text, reasoning and tool calls. The fake engine's replies say which by tags.

``<think>…</think>`` is reasoning; ``<tool_call>{"name": …, "arguments": {…}}</tool_call>`` is a call where the request has tools.
"""

import json
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["text", "reasoning", "tool"]

_CLOSING = {"<think>": "</think>", "<tool_call>": "</tool_call>"}


@dataclass(frozen=True)
class Part:
    """A piece of an answer. A tool call comes whole; its ``text`` is the arguments as JSON."""

    kind: Kind
    text: str
    name: str = ""


@dataclass
class Splitter:
    """Splits a reply while it arrives; text leaves as soon as it cannot be the beginning of a tag."""

    has_tools: bool
    _buffer: str = ""
    _tag: str = ""
    _ended: list[Part] = field(default_factory=list)

    def feed(self, text: str, is_last: bool = False) -> list[Part]:
        """The parts that ``text`` completes; an unfinished call is dropped at the end, as SGLang does."""
        self._buffer += text
        self._ended = []
        while self._step():
            pass
        if is_last and self._tag != "<tool_call>":
            self._emit(self._buffer)
        return self._ended

    def _step(self) -> bool:
        tags = [_CLOSING[self._tag]] if self._tag else ["<think>", *(["<tool_call>"] if self.has_tools else [])]
        found = [(at, tag) for tag in tags if (at := self._buffer.find(tag)) >= 0]
        if found:
            at, tag = min(found)
            self._emit(self._buffer[:at])
            self._buffer = self._buffer[at + len(tag) :]
            self._tag = "" if self._tag else tag
            return True
        if self._tag != "<tool_call>":
            keep = max((n for tag in tags for n in range(len(tag)) if self._buffer.endswith(tag[:n])), default=0)
            self._emit(self._buffer[: len(self._buffer) - keep])
            self._buffer = self._buffer[len(self._buffer) - keep :]
        return False

    def _emit(self, text: str) -> None:
        if self._tag == "<tool_call>":
            call = json.loads(text)
            self._ended.append(Part("tool", json.dumps(call["arguments"], ensure_ascii=False), call["name"]))
        elif text:
            self._ended.append(Part("reasoning" if self._tag else "text", text))


def joined(parts: list[Part]) -> tuple[str, str, list[Part]]:
    """Text, reasoning and calls of a whole answer."""
    text = "".join(part.text for part in parts if part.kind == "text")
    reasoning = "".join(part.text for part in parts if part.kind == "reasoning")
    return text, reasoning, [part for part in parts if part.kind == "tool"]


def flat(content: Any) -> str:
    """The text of a message's content, whether it is a string or a list of parts."""
    if isinstance(content, list):
        return "".join(part if isinstance(part, str) else str(part.get("text") or flat(part.get("content"))) for part in content)
    return content if isinstance(content, str) else ""
