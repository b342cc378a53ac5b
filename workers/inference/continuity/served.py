"""The template, tokenizer and parsers of the model that SGLang serves, for one request.

Owns the calls into SGLang's chat handler. Not owned: the decision (`extend`). Place in the path: step 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import jinja2

from workers.inference.continuity.messages import Call, Message, canonical_arguments
from workers.inference.continuity.reasoning import Reasoning
from workers.inference.continuity.template import TemplateRefused

_REFUSALS = (jinja2.TemplateError, TypeError, ValueError, LookupError, AttributeError)
"""What a template may raise on messages that it was not written for."""


class ServedTemplate:
    """Satisfies `template.Template`. `encoder`: SGLang's own, set when it is first reached."""

    encoder: Callable[..., list[int]]

    def __init__(self, serving: Any, request: Any, options: dict[str, Any]) -> None:
        self.serving = serving
        self._tokenizer = serving.tokenizer_manager.tokenizer
        self._request = request
        self._tools: list[Any] | None = options["tools"]
        self._template_kwargs: dict[str, Any] = options["template_kwargs"]
        self._encode_kwargs: dict[str, Any] = options["encode_kwargs"]
        self.reasoning = _reasoning(serving)

    def render(self, messages: Sequence[Message]) -> str:
        tools = self._tools[:1] if self._tools else None
        try:
            text: str = self._tokenizer.apply_chat_template(
                list(messages), tokenize=False, add_generation_prompt=True, tools=tools, return_dict=False, **self._template_kwargs
            )
        except _REFUSALS as refusal:
            raise TemplateRefused(str(refusal)) from refusal
        return text

    def encode(self, text: str) -> list[int]:
        return list(self.encoder(self._tokenizer, text, self._encode_kwargs))

    def parse(self, text: str, tool_choice: Any) -> tuple[str, list[Call]]:
        if not self.serving._tool_call_parsing_active(self._request):
            return text, []
        tools = self.serving._effective_tools(self._request)
        finish = {"type": "stop", "matched": None}
        parsed, rest, _ = self.serving._process_tool_calls(text, tools, finish, tool_choice)
        calls = [call.function for call in parsed or ()]
        return rest or "", [Call(call.name, canonical_arguments(call.arguments)) for call in calls]

    def special_token(self, token_id: int) -> str | None:
        return _special_tokens(self._tokenizer).get(token_id)


@lru_cache(maxsize=4)
def _special_tokens(tokenizer: Any) -> dict[int, str]:
    return {token_id: str(token) for token_id, token in tokenizer.added_tokens_decoder.items()}


@lru_cache(maxsize=4)
def _reasoning(serving: Any) -> Reasoning:
    """The markers of the engine's reasoning parser, else the common ones."""
    detector = serving._reasoning_detector
    start, end = getattr(detector, "think_start_token", None), getattr(detector, "think_end_token", None)
    return Reasoning(start, end) if start and end else Reasoning()
