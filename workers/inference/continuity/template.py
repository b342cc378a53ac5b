"""What continuity needs of a served model for one request: its template, tokenizer and parsers.

Owns the Protocol. The real one is `hooks.ServedTemplate`; the tests have one with tokenizers trained on the spot. Place
in the path: the seam between continuity and SGLang.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from workers.inference.continuity.messages import Call, Message
from workers.inference.continuity.reasoning import Reasoning


class Template(Protocol):
    """One request's rendering: tools and template arguments are those of the request."""

    @property
    def reasoning(self) -> Reasoning: ...

    def render(self, messages: Sequence[Message]) -> str:
        """The text of `messages` with the generation prompt; tools may be cut to one, to keep a dummy short.

        Raises: TemplateRefused where the template raises.
        """
        ...

    def encode(self, text: str) -> list[int]:
        """The ids that the engine would give a rendered text."""
        ...

    def parse(self, text: str, tool_choice: Any) -> tuple[str, list[Call]]:
        """An output as the agent gets it: the text beside the calls, and the calls."""
        ...

    def special_token(self, token_id: int) -> str | None:
        """The text of a special (added) token, or None for an ordinary one."""
        ...


class TemplateRefused(ValueError):
    """The template raised on these messages."""
