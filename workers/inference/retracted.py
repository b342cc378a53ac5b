"""Spares a request that a swap interrupted what it has already. Runs in SGLang's scheduler process.

Owns where logprobs of a retracted request's tokens begin. A swap drops every KV cache, so the tokens of each running request are
computed once more. SGLang then also takes the logprobs of all that the request had sampled, each over the whole
vocabulary, and throws them away. Requests that asked for logprobs of their prompt keep SGLang's way. Source: SGLang 0.5.23,
`srt/managers/schedule_batch.py` and `scheduler_components/logprob_result_processor.py`; what it saves is in docs/decisions/0022.
Place in the path: step 3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def around_reset(original: Callable[..., None], request: Any) -> None:
    """Logprobs begin behind the tokens that the request has."""
    original(request)
    num_prompt_ids = len(request.origin_input_ids)
    if request.logprob_start_len >= num_prompt_ids:
        request.logprob_start_len = num_prompt_ids + len(request.output_ids)
