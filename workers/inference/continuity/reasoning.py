"""Where reasoning stands in a text, for templates that keep it, strip it or open it in the generation prompt.

Owns the two markers of one model and what may differ "by reasoning only". Not owned: which markers a model has (the
engine's reasoning parser knows). Place in the path: step 1, used by `echo` and `splice`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field


@dataclass(slots=True, frozen=True)
class Reasoning:
    """The markers around a model's reasoning, for most `<think>` and `</think>`."""

    start: str = "<think>"
    end: str = "</think>"
    _block: re.Pattern[str] = field(init=False, repr=False, compare=False)
    _opener: re.Pattern[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        start, end = re.escape(self.start), re.escape(self.end)
        object.__setattr__(self, "_block", re.compile(rf"{start}.*?{end}\s*", re.DOTALL))
        object.__setattr__(self, "_opener", re.compile(rf"{start}\s*(?:{end}\s*)?\Z"))

    def after(self, text: str) -> str:
        """What follows the reasoning, white space at the ends aside; `text` itself where there is none."""
        return (text.partition(self.end)[2] if self.end in text else text).strip()

    def forms(self, text: str) -> set[str]:
        """The ways an agent may write the same answer: with its reasoning in the text, or without."""
        return {text.strip(), self.after(text)}

    def without(self, body: str) -> str:
        """A rendered answer without its reasoning blocks; the first may have been opened by the generation prompt."""
        if self.end not in body:
            return body.strip()
        return self._block.sub("", body).strip() if self.start in body else self.after(body)

    def before_opener(self, prompt: str) -> str:
        """A rendered prompt without the (open or empty) reasoning block that its generation prompt ends with."""
        return self._opener.sub("", prompt) if self.start in prompt[-64 - len(self.start) - len(self.end) :] else prompt
