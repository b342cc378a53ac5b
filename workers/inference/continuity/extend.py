"""Decides, for each chat request, whether its prompt extends an earlier turn, and counts what was decided.

Owns the search for the deepest matching turn and the counters behind `/metrics`. Whatever is unknown lets the engine
render. Not owned: the engine (`hooks`). Place in the path: step 1, between SGLang's template and its tokenizer.
"""

from __future__ import annotations

import threading
from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from workers.inference.continuity.echo import echoes
from workers.inference.continuity.messages import ANSWER_ROLE, UNREADABLE, Message, chain, echo_digest
from workers.inference.continuity.reasons import Reason
from workers.inference.continuity.splice import Suffixes, body_digest, cut
from workers.inference.continuity.template import Template
from workers.inference.continuity.turns import Answer, Prompt, Turns


@dataclass(slots=True)
class Turn:
    """One request on its way through the template. `max_ids`: what the prompt may have at most.

    `prompt` and `ids` are set once the prompt is known; without them the answer is not kept.
    """

    salt: str
    messages: Sequence[Message]
    context: bytes
    template: Template
    max_ids: int
    tool_choice: Any = "auto"
    prompt: Prompt | None = None
    ids: list[int] | None = None


@dataclass(slots=True, frozen=True)
class Finish:
    """How the engine ended an answer: its type, and the stop token id or stop string that it matched."""

    kind: str
    matched: int | str | None


class Continuity:
    """The turns of one engine process and what became of each prompt."""

    def __init__(self, budget_bytes: int) -> None:
        self._turns = Turns(budget_bytes)
        self._suffixes = Suffixes()
        self._lock = threading.Lock()
        self._num_extended = 0
        self._rendered: Counter[str] = Counter()
        self._passed_over: Counter[str] = Counter()

    def prompt(self, turn: Turn, text: str) -> list[int]:
        """The ids of a prompt that the template rendered as `text`: an extension, or else the engine's own encoding."""
        try:
            keys = chain(turn.salt, turn.messages, turn.template.reasoning)
        except UNREADABLE:
            self.rendered(Reason.NOT_TEXT)
            return turn.template.encode(text)
        found = self._extend(turn, keys, text)
        if isinstance(found, Reason):
            self.rendered(found)
            turn.ids = turn.template.encode(text)
            kept_text = turn.template.reasoning.before_opener(text)
            turn.prompt = Prompt(keys[-1], turn.context, len(turn.messages), array("i", turn.ids), kept_text)
        return turn.ids or []

    def keep(self, turn: Turn, output_ids: Sequence[int], text: str, finish: Finish, call_ids: list[str]) -> None:
        """Keep an answer: output_ids [N] as sampled, `text` as the agent's parsers got it."""
        if turn.prompt is None or not output_ids:
            return
        stop_text, unfit = _stop(turn.template, output_ids, finish)
        siblings = (known.prompt for known in self._turns.find(turn.prompt.key))
        prompt = next((known for known in siblings if _same(known, turn.prompt)), turn.prompt)
        self._turns.add(Answer(prompt, array("i", output_ids), text, stop_text, unfit, turn.tool_choice, call_ids))

    def rendered(self, reason: Reason) -> None:
        """Count a prompt that the engine renders."""
        with self._lock:
            self._rendered[reason] += 1

    def counts(self) -> dict[str, Any]:
        """`extended`, `rendered` by reason, `passed_over` by reason (a deeper turn was not extended, a shallower was)."""
        with self._lock:
            return {
                "extended": self._num_extended,
                "rendered": dict(self._rendered),
                "passed_over": dict(self._passed_over),
                "size_bytes": self._turns.size_bytes,
            }

    def _extend(self, turn: Turn, keys: list[bytes], text: str) -> Reason | None:
        """Extend the deepest matching turn and set the turn's prompt, or say why the deepest known one does not do."""
        obstacle: Reason | None = None
        for at in range(len(turn.messages) - 1, 0, -1):
            if turn.messages[at].get("role") != ANSWER_ROLE:
                continue
            outcome = self._extend_at(turn, at, keys, text)
            if outcome is None:
                self._count_extended(obstacle)
                return None
            if obstacle is None or obstacle is Reason.UNKNOWN_HISTORY:
                obstacle = outcome
            if outcome is Reason.HISTORY_REWRITTEN:  # further up it would only look better because less is known
                break
        return obstacle or Reason.FIRST_TURN

    def _count_extended(self, obstacle: Reason | None) -> None:
        with self._lock:
            self._num_extended += 1
            if obstacle is not None:
                self._passed_over[obstacle] += 1

    def _extend_at(self, turn: Turn, at: int, keys: list[bytes], text: str) -> Reason | None:
        parent = self._parent(turn, at, keys[at])
        if isinstance(parent, Reason):
            return parent
        template = turn.template
        here = cut(text, parent, turn.messages, template.reasoning)
        if isinstance(here, Reason):
            return here
        echo, new = turn.messages[at], turn.messages[at + 1 :]
        suffix = self._suffixes.render(template, turn.context, parent.stop_text, echo, new)
        if suffix != here.tail:
            return suffix if isinstance(suffix, Reason) else Reason.SUFFIX_DIFFERS
        stop_and_suffix = template.encode(parent.stop_text + here.tail)
        if stop_and_suffix[:1] != [parent.ids[-1]]:
            return Reason.OTHER_STOP_TOKEN
        ids = parent.all_ids().tolist() + stop_and_suffix[1:]
        if len(ids) > turn.max_ids:
            return Reason.TOO_LONG
        turn.ids = ids
        turn.prompt = Prompt(
            keys[-1],
            turn.context,
            len(turn.messages),
            array("i", stop_and_suffix[1:]),
            template.reasoning.before_opener(here.tail),
            parent,
            body_digest(here.body, template.reasoning),
            echo_digest(echo),
        )
        return None

    def _parent(self, turn: Turn, at: int, key: bytes) -> Answer | Reason:
        """The one answer to messages[:at] that messages[at] echoes."""
        known = self._turns.find(key)
        if not known:
            return Reason.UNKNOWN_HISTORY
        same_context = [answer for answer in known if answer.prompt.context == turn.context]
        if not same_context:
            return Reason.OTHER_CONTEXT
        matching = [answer for answer in same_context if echoes(answer, turn.messages[at], turn.template)]
        if not matching:
            return Reason.EDITED_ANSWER
        latest = matching[-1]
        if not all(answer.same_ids(latest) for answer in matching):
            return Reason.AMBIGUOUS_SIBLING
        return latest.unfit or latest


def _stop(template: Template, output_ids: Sequence[int], finish: Finish) -> tuple[str, Reason | None]:
    """The text of the answer's stop token, or why the answer has none that a template would write."""
    if finish.kind != "stop":
        return "", Reason.TRUNCATED
    if not isinstance(finish.matched, int):
        return "", Reason.STOPPED_BY_STRING
    stop_text = template.special_token(finish.matched) if output_ids[-1] == finish.matched else None
    return stop_text or "", None if stop_text else Reason.OTHER_STOP_TOKEN


def _same(known: Prompt, new: Prompt) -> bool:
    return known.parent is new.parent and known.ids == new.ids
