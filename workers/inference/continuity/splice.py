"""Cuts the engine's own rendering of a whole conversation at the turns that are kept, and takes what is new.

Owns the proof that extending is right: the rendering T must be, piece by piece, the text of each kept prompt, any
rendering of the answer that followed it, that answer's stop token, and at the end exactly the text that the new messages
have after a short dummy history. Then ids of the kept turns + encode(what follows the last stop token) mean T, but for
the answers themselves, which stay as they were sampled. Place in the path: step 1, once a parent is found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from workers.inference.continuity.messages import Message, digest, echo_digest
from workers.inference.continuity.reasoning import Reasoning
from workers.inference.continuity.reasons import Reason
from workers.inference.continuity.template import Template, TemplateRefused
from workers.inference.continuity.turns import Answer, Prompt

_MAX_KNOWN_CONTEXTS: Final = 256
_DUMMY_OPENING: Final[list[Message]] = [{"role": "user", "content": "x"}]


@dataclass(slots=True, frozen=True)
class Cut:
    """What follows the last kept answer's stop token, and that answer as the template renders it now."""

    tail: str
    body: str


def cut(text: str, last: Answer, messages: Sequence[Message], reasoning: Reasoning) -> Cut | Reason:
    """Cut `text`, the rendering of `messages`, behind the answer `last`."""
    line = last.lineage()
    position = 0
    body = ""
    for index, answer in enumerate(line):
        if not text.startswith(answer.prompt.text, position):
            return Reason.HISTORY_REWRITTEN
        start = position + len(answer.prompt.text)
        end = text.find(answer.stop_text, start)
        if end < 0:
            return Reason.HISTORY_REWRITTEN
        body = text[start:end]
        if index + 1 < len(line) and not _same_body(line[index + 1].prompt, answer.prompt.num_messages, body, messages, reasoning):
            return Reason.HISTORY_REWRITTEN
        position = end + len(answer.stop_text)
    return Cut(text[position:], body)


def body_digest(body: str, reasoning: Reasoning) -> bytes:
    """Digest of a rendered answer, its reasoning aside."""
    return digest(reasoning.without(body).encode(errors="surrogatepass"))


def _same_body(child: Prompt, at: int, body: str, messages: Sequence[Message], reasoning: Reasoning) -> bool:
    """An answer further up may be rendered without its reasoning now; else only as far as the agent wrote it differently."""
    return body_digest(body, reasoning) == child.parent_body or echo_digest(messages[at]) != child.parent_echo


class Suffixes:
    """Renders new messages after a dummy history: one user message and the echoed answer."""

    def __init__(self) -> None:
        self._num_stops: dict[tuple[bytes, str], int] = {}

    def render(self, template: Template, context: bytes, stop_text: str, echo: Message, new: Sequence[Message]) -> str | Reason:
        """What the template writes after the answer's stop token."""
        try:
            num_stops = self._stops_before_answer(template, context, stop_text)
            answered = template.render([*_DUMMY_OPENING, echo])
            rendered = template.render([*_DUMMY_OPENING, echo, *new])
        except TemplateRefused:
            return Reason.SUFFIX_REFUSED
        pieces = rendered.split(stop_text, num_stops + 1)
        ends_once = answered.count(stop_text) == num_stops + 1  # some templates write nothing for an empty answer
        return pieces[-1] if ends_once and len(pieces) == num_stops + 2 else Reason.SUFFIX_DIFFERS

    def _stops_before_answer(self, template: Template, context: bytes, stop_text: str) -> int:
        """How often the stop token stands in the dummy history before the answer (system and user turns may end with it)."""
        key = (context, stop_text)
        num_stops = self._num_stops.get(key)
        if num_stops is None:
            if len(self._num_stops) >= _MAX_KNOWN_CONTEXTS:
                self._num_stops.clear()
            num_stops = self._num_stops[key] = template.render(_DUMMY_OPENING).count(stop_text)
        return num_stops
