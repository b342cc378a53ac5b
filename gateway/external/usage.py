"""Tokens used, whatever the dialect calls them, under the names of chat completions."""

from dataclasses import dataclass
from typing import Any


@dataclass(slots=True, frozen=True)
class Usage:
    """``prompt`` counts all input tokens; ``cache_read`` and ``cache_write`` are parts of it."""

    prompt: int = 0
    completion: int = 0
    cache_read: int = 0
    cache_write: int = 0

    def counts(self) -> dict[str, int]:
        """For the record."""
        total = {"prompt_tokens": self.prompt, "completion_tokens": self.completion, "total_tokens": self.prompt + self.completion}
        cached = {"cache_read_tokens": self.cache_read, "cache_write_tokens": self.cache_write}
        return total | {name: count for name, count in cached.items() if count}


def read_usage(given: Any) -> Usage:
    """The ``usage`` of an answer in any dialect. Anthropic counts cached tokens apart from ``input_tokens``."""
    if not isinstance(given, dict):
        return Usage()
    if "prompt_tokens" in given:
        details = given.get("prompt_tokens_details") or {}
        return Usage(given["prompt_tokens"] or 0, given.get("completion_tokens") or 0, details.get("cached_tokens") or 0)
    read, written = given.get("cache_read_input_tokens") or 0, given.get("cache_creation_input_tokens") or 0
    if "input_tokens_details" in given:
        read = (given["input_tokens_details"] or {}).get("cached_tokens") or 0
        return Usage(given.get("input_tokens") or 0, given.get("output_tokens") or 0, read)
    return Usage((given.get("input_tokens") or 0) + read + written, given.get("output_tokens") or 0, read, written)


def in_responses_form(usage: Any) -> Any:
    """litellm counts some streams of Responses under chat's names; agents read the dialect's own."""
    if not isinstance(usage, dict) or "prompt_tokens" not in usage:
        return usage
    found = read_usage(usage)
    reasoning = (usage.get("completion_tokens_details") or {}).get("reasoning_tokens") or 0
    return {
        "input_tokens": found.prompt,
        "input_tokens_details": {"cached_tokens": found.cache_read},
        "output_tokens": found.completion,
        "output_tokens_details": {"reasoning_tokens": reasoning},
        "total_tokens": found.prompt + found.completion,
    }
