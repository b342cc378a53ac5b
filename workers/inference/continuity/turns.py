"""What is kept of earlier turns: ids and texts, in RAM only, up to a budget of bytes.

Owns the family tree of turns (a prompt extends an answer, an answer follows a prompt) and its eviction. A turn holds only
what it added, so a conversation costs its length and not its square. Not owned: what identifies a turn (`messages`).
Place in the path: step 1. Thread-safe: SGLang renders in worker threads and finishes answers on its event loop.
"""

from __future__ import annotations

import threading
from array import array
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any, Final

from workers.inference.continuity.reasons import Reason

_OVERHEAD_BYTES: Final = 1024
"""About what the objects around a turn's ids and texts take."""
_MAX_SIBLINGS: Final = 64


@dataclass(slots=True, frozen=True, eq=False)
class Prompt:
    """What one request added to its parent's ids, or the whole prompt where the engine rendered.

    ids [S] int32; `text`: what the template wrote for them, without the answer's opener; `num_messages` of the request;
    `parent_body` and `parent_echo`: digests of the parent's answer as rendered and as echoed here.
    """

    key: bytes
    context: bytes
    num_messages: int
    ids: array[int]
    text: str
    parent: Answer | None = None
    parent_body: bytes = b""
    parent_echo: bytes = b""

    @property
    def size_bytes(self) -> int:
        return 4 * len(self.ids) + len(self.text) + _OVERHEAD_BYTES


@dataclass(slots=True, frozen=True, eq=False)
class Answer:
    """One sampled answer. ids [N] int32, the stop token last; `unfit` says why it cannot be extended.

    `call_ids` fills while the engine parses the answer for the agent; empty where the engine named none.
    """

    prompt: Prompt
    ids: array[int]
    text: str
    stop_text: str
    unfit: Reason | None = None
    tool_choice: Any = "auto"
    call_ids: list[str] = field(default_factory=list)

    @property
    def size_bytes(self) -> int:
        return 4 * len(self.ids) + len(self.text) + _OVERHEAD_BYTES

    def lineage(self) -> list[Answer]:
        """The answers from the first turn to this one."""
        line: list[Answer] = [self]
        while line[-1].prompt.parent is not None:
            line.append(line[-1].prompt.parent)
        return line[::-1]

    def all_ids(self) -> array[int]:
        """Prompt and output ids [P + N] as the engine had them."""
        ids: array[int] = array("i")
        for answer in self.lineage():
            ids += answer.prompt.ids
            ids += answer.ids
        return ids

    def same_ids(self, other: Answer) -> bool:
        return self.prompt is other.prompt and self.ids == other.ids


@dataclass(slots=True)
class _Entry:
    answers: list[Answer]
    size_bytes: int = 0


class Turns:
    """Answers by the digest of the messages they answer; least recently used first out."""

    def __init__(self, budget_bytes: int) -> None:
        self._budget_bytes = budget_bytes
        self._entries: OrderedDict[bytes, _Entry] = OrderedDict()
        self._lock = threading.Lock()
        self.size_bytes = 0

    def find(self, key: bytes) -> list[Answer]:
        with self._lock:
            entry = self._entries.get(key)
            return [] if entry is None else list(entry.answers)

    def add(self, answer: Answer) -> None:
        """Keep `answer`; its ancestors count as used, so no turn outlives the turns it stands on."""
        with self._lock:
            self._insert(answer)
            for turn in reversed(answer.lineage()):
                if turn.prompt.key in self._entries:
                    self._entries.move_to_end(turn.prompt.key)
            while self.size_bytes > self._budget_bytes and self._entries:
                self.size_bytes -= self._entries.popitem(last=False)[1].size_bytes

    def _insert(self, answer: Answer) -> None:
        entry = self._entries.setdefault(answer.prompt.key, _Entry([]))
        shared = any(sibling.prompt is answer.prompt for sibling in entry.answers)
        size = answer.size_bytes + (0 if shared else answer.prompt.size_bytes)
        entry.answers.append(answer)
        entry.size_bytes += size
        self.size_bytes += size
        del entry.answers[:-_MAX_SIBLINGS]
