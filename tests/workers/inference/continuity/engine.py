"""An engine without weights: renders and encodes as SGLang does, takes ids from continuity, and "samples" a given answer.

It satisfies `template.Template` with a family's tokenizer. What it does to messages before rendering is what SGLang's chat handler
does (null content becomes "", arguments are parsed, absent fields are dropped).
"""

import copy
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jinja2

from tests.workers.inference.continuity.families import Draft, Family
from workers.inference.continuity.extend import Continuity, Finish, Turn
from workers.inference.continuity.messages import Call, Message, canonical_arguments, context_digest
from workers.inference.continuity.reasoning import Reasoning
from workers.inference.continuity.template import TemplateRefused

_PARAMETERS: dict[str, Any] = {"type": "object", "properties": {}}
TOOLS = [
    {"type": "function", "function": {"name": name, "description": f"to {name}", "parameters": _PARAMETERS}}
    for name in ("search", "read", "write")
]
STOP = "stop"


class FamilyTemplate:
    """Continuity's view of a family for one request."""

    reasoning = Reasoning()

    def __init__(self, family: Family, tools: list[dict[str, Any]] | None, kwargs: dict[str, Any]) -> None:
        self._family = family
        self._tools = tools
        self._kwargs = kwargs
        self.num_rendered_messages = 0

    def render(self, messages: Sequence[Message]) -> str:
        self.num_rendered_messages += len(messages)
        return self.stock(messages, self._tools[:1] if self._tools else None)

    def stock(self, messages: Sequence[Message], tools: list[dict[str, Any]] | None) -> str:
        tokenizer = self._family.tokenizer
        try:
            text: str = tokenizer.apply_chat_template(
                list(messages), tokenize=False, add_generation_prompt=True, tools=tools, **self._kwargs
            )
        except (jinja2.TemplateError, TypeError) as refusal:
            raise TemplateRefused(str(refusal)) from refusal
        return text

    def encode(self, text: str) -> list[int]:
        return list(self._family.tokenizer.encode(text, add_special_tokens=False))

    def parse(self, text: str, tool_choice: Any) -> tuple[str, list[Call]]:
        content, calls = self._family.parse(text)
        return content, [Call(name, canonical_arguments(arguments)) for name, arguments in calls]

    def special_token(self, token_id: int) -> str | None:
        token = self._family.tokenizer.added_tokens_decoder.get(token_id)
        return None if token is None else str(token)


@dataclass(frozen=True)
class Exchange:
    """One request: prompt ids as the scheduler would get them, ids sampled, the stock rendering, what continuity decided."""

    prompt_ids: list[int]
    output_ids: list[int]
    stock_text: str
    stock_ids: list[int]
    is_extended: bool
    answer: dict[str, Any]
    num_dummy_messages: int

    @property
    def ids(self) -> list[int]:
        return self.prompt_ids + self.output_ids


class Engine:
    """One served model of a family."""

    def __init__(self, family: Family, budget_bytes: int = 1 << 26, seed: int = 0, context_len: int = 1 << 20) -> None:
        self.family = family
        self.continuity = Continuity(budget_bytes)
        self._chance = random.Random(seed)
        self._context_len = context_len
        self._num_calls = 0

    def ask(
        self, messages: list[dict[str, Any]], draft: Draft, *, salt: str = "tenant", tools: list[dict[str, Any]] | None = TOOLS,
        kwargs: dict[str, Any] | None = None, finish: str = STOP, stop: int | str | None = None, num_choices: int = 1,
    ) -> Exchange:  # fmt: skip
        """Answer `messages` with `draft`. `finish`: the engine's finish type; `stop`: what it matched, if not the family's."""
        kwargs = self.family.kwargs if kwargs is None else kwargs
        template = FamilyTemplate(self.family, tools, kwargs)
        seen = as_sglang_renders(messages)
        stock_text = template.stock(seen, tools)
        context = context_digest(tools, kwargs)
        turn = Turn(salt, seen, context, template, self._context_len)
        before = self.continuity.counts()["extended"]
        prompt_ids = self.continuity.prompt(turn, stock_text)
        for _ in range(num_choices):
            written = self.family.write(draft)
            sampled = self.family.sample(written, self._chance)
            stop_id = self.family.tokenizer.convert_tokens_to_ids(self.family.stop)
            output_ids = [*sampled, stop_id] if finish == STOP and stop is None else sampled
            answer = self._parsed(draft)
            call_ids = [call["id"] for call in answer.get("tool_calls", ())]
            self.continuity.keep(turn, output_ids, written, Finish(finish, stop_id if stop is None else stop), call_ids)
        is_extended = self.continuity.counts()["extended"] > before
        stock_ids = template.encode(stock_text)
        return Exchange(prompt_ids, output_ids, stock_text, stock_ids, is_extended, answer, template.num_rendered_messages)

    def _parsed(self, draft: Draft) -> dict[str, Any]:
        """The message that an agent gets: reasoning apart, calls apart."""
        content = self.family.parse(FamilyTemplate.reasoning.after(self.family.write(draft)))[0].strip()
        message: dict[str, Any] = {"role": "assistant", "content": content or None}
        if draft.reasoning:
            message["reasoning_content"] = draft.reasoning
        calls = draft.calls[: self.family.max_calls]
        if calls:
            message["tool_calls"] = [self._call(name, arguments) for name, arguments in calls]
        return message

    def _call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        self._num_calls += 1
        function = {"name": name, "arguments": json.dumps(arguments)}
        return {"id": f"call{self._num_calls:05}", "type": "function", "function": function}


def as_sglang_renders(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Messages as SGLang's chat handler hands them to the template."""
    seen = []
    for message in copy.deepcopy(messages):
        message["content"] = _flat(message.get("content"))
        for call in message.get("tool_calls") or []:
            if isinstance(call["function"]["arguments"], str):
                call["function"]["arguments"] = json.loads(call["function"]["arguments"])
        seen.append({key: value for key, value in message.items() if value is not None})
    return seen


def _flat(content: Any) -> Any:
    """SGLang joins text parts with a space for templates that expect strings."""
    if isinstance(content, list) and all(part.get("type") == "text" for part in content):
        return " ".join(part["text"] for part in content)
    return "" if content is None else content
