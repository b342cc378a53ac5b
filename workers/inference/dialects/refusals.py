"""A 400 for what the engine cannot take, where SGLang's code stumbles over it and answers 500, or dies of it.

Owns which exceptions are the caller's mistake: those that a value of a wrong type or size causes before the engine was asked.
SGLang's models check most fields; what slips through meets `.get` of a list, or arithmetic on text. And it owns the limits
of numbers that reach the sampler unchecked, where an infinity ends the scheduler for everybody. Not owned: SGLang's own 400s
(`errors`). Place in the path: step 1, before the engine is asked.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from workers.inference.middleware import BAD_VALUE, SCOPE_KEY, repairing

log = logging.getLogger(__name__)

MAX_BIAS: Final = 1e6
"""OpenAI allows 100. More is as good as certain, and an infinity makes a distribution of NaN."""


def around_conversion(original: Callable[..., Any], serving: Any, request: Any, raw_request: Any = None) -> Any:
    """A request as the engine takes it. Raises ValueError, which SGLang answers with 400."""
    order = None if raw_request is None else raw_request.scope.get(SCOPE_KEY)
    if order is None or order.rid is None:
        return original(serving, request, raw_request)
    try:
        return original(serving, request, raw_request)
    except BAD_VALUE as error:
        raise as_refusal(error) from error


def as_refusal(error: BaseException) -> ValueError:
    """`error` as SGLang's handlers tell a caller's mistake."""
    if isinstance(error, ValueError):
        return error
    log.warning("a request could not be read", exc_info=error)
    return ValueError(f"a value of the request has a wrong type or form ({type(error).__name__}: {error})")


def check_biases(biases: Any) -> None:
    """Refuse biases [token id → number] that no distribution survives.

    Raises:
        ValueError: with the range.
    """
    if not isinstance(biases, Mapping):
        return
    for bias in biases.values():
        if not (isinstance(bias, int | float) and math.isfinite(bias) and abs(bias) <= MAX_BIAS):
            raise ValueError(f"logit_bias must lie between {-MAX_BIAS:.0f} and {MAX_BIAS:.0f}")


def around_embeddings(original: Callable[..., Any], serving: Any, outputs: Any, *args: Any) -> Any:
    """The answer under the model's served name: SGLang tells the path of its files."""
    answer = original(serving, outputs, *args)
    if repairing() is not None:
        answer.model = serving.tokenizer_manager.served_model_name
    return answer


def hooks() -> list[tuple[str, Callable[..., Any]]]:
    """Targets and hooks; chat's conversion has its own (`chat`)."""
    openai = "sglang.srt.entrypoints.openai"
    return [
        (f"{openai}.serving_completions.OpenAIServingCompletion._convert_to_internal_request", around_conversion),
        (f"{openai}.serving_embedding.OpenAIServingEmbedding._convert_to_internal_request", around_conversion),
        (f"{openai}.serving_embedding.OpenAIServingEmbedding._build_embedding_response", around_embeddings),
    ]
