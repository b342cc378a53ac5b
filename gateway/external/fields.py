"""Which fields of an agent's request go to litellm by name, and what becomes of the rest.

litellm takes the fields of a request and its own controls (keys, addresses, hooks) through one door, so only names on these lists
pass it; no agent can send our key to an address of its own.
"""

from typing import Any, Final

CHAT: Final = frozenset(
    (
        *("messages", "frequency_penalty", "presence_penalty", "logit_bias", "logprobs", "top_logprobs", "max_tokens", "n", "seed"),
        *("max_completion_tokens", "response_format", "stop", "temperature", "top_p", "tools", "tool_choice", "user", "functions"),
        *("parallel_tool_calls", "function_call", "reasoning_effort", "modalities", "audio", "prediction", "thinking", "verbosity"),
        *("service_tier", "web_search_options"),
    )
)
COMPLETIONS: Final = frozenset(
    (
        *(
            "prompt",
            "best_of",
            "echo",
            "frequency_penalty",
            "presence_penalty",
            "logit_bias",
            "logprobs",
            "max_tokens",
            "n",
            "stop",
        ),
        *("suffix", "temperature", "top_p", "user"),
    )
)
RESPONSES: Final = frozenset(
    (
        *(
            "input",
            "include",
            "instructions",
            "max_output_tokens",
            "metadata",
            "parallel_tool_calls",
            "previous_response_id",
            "text",
        ),
        *(
            "reasoning",
            "store",
            "temperature",
            "tool_choice",
            "tools",
            "top_p",
            "truncation",
            "user",
            "service_tier",
            "top_logprobs",
        ),
        *("safety_identifier", "prompt", "max_tool_calls", "prompt_cache_key"),
    )
)
MESSAGES: Final = frozenset(
    (
        *("messages", "max_tokens", "metadata", "stop_sequences", "system", "temperature", "thinking", "tool_choice", "tools"),
        *("top_k", "top_p"),
    )
)
EMBEDDINGS: Final = frozenset(("input", "dimensions", "encoding_format", "user"))
_OURS: Final = frozenset(("model", "stream", "stream_options"))


def split(body: dict[str, Any], known: frozenset[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """(the fields that litellm knows, those that only the provider may know) of a request."""
    named = {name: value for name, value in body.items() if name in known and value is not None}
    return named, {name: value for name, value in body.items() if name not in known and name not in _OURS}
