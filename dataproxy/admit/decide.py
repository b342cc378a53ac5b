"""The decision on one sample: pure, first reason wins. Reasons are short words, counted in ``headrace status``.

The engine's logprobs are scaled by temperature and taken before top-p, top-k, penalties, bias and grammars: under any of those (and
at temperature 0) they are not the probabilities that the answer was drawn with, so such a sample is not trainable.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from dataproxy.admit.policy import AdmissionPolicy

Setting = float | int | str | bool | None
_NEUTRAL: dict[str, tuple[Setting, ...]] = {
    "top_p": (None, 1),
    "min_p": (None, 0),
    "frequency_penalty": (None, 0),
    "presence_penalty": (None, 0),
    "repetition_penalty": (None, 1),
    "min_new_tokens": (None, 0),
    "logit_bias": (None, "", False),
    "grammar": (None, "", False),
    "json_schema": (None, "", False),
    "regex": (None, "", False),
    "ebnf": (None, "", False),
    "structural_tag": (None, "", False),
    "custom_logit_processor": (None, "", False),
    "custom": (None, False),
}
_ALL_TOKENS = 1 << 20
EXTERNAL = "external_model"
INTERNAL_CALL = "internal_call"
"""The system's own calls, such as a judge's."""
VAULT_ONLY = "vault_only"
"""The reason of a sample that trains only as long as its raw tokens can be had."""
REASONS: Final[tuple[str, ...]] = (
    *("eligible", VAULT_ONLY, "no_consent", EXTERNAL, INTERNAL_CALL),
    *("disconnected", "aborted", "incomplete", "upstream_error", "engine_error", "http_error", "no_tokens"),
    *("unequal_lengths", "record_incomplete", "version_spans", "unknown_version", "choices_conflict", "bad_logprobs"),
    *("engine_abort", "truncated", "altered", "secret_in_answer", "dropped_kind"),
    *(f"sampling_{setting}" for setting in ("temperature", "top_k", *_NEUTRAL)),
)
"""Every reason that a decision gives: for, and against an exchange, a record, a sample, and the way that it was sampled."""


@dataclass(slots=True, frozen=True)
class Sample:
    """One choice as admission sees it: logprobs [N] float32, versions [N] int32.

    ``num_altered`` of ``num_tokens`` ids (prompt included) were overwritten by redaction; ``secret``: the answer held a secret;
    ``dropped``: the exchange held a kind of value that the tenant's redaction policy never lets train. ``vaulted``: its raw tokens
    are kept for the trainer.
    """

    finish_reason: str | None
    fault: str
    sampling: Mapping[str, Setting]
    logprobs: NDArray[np.float32]
    versions: NDArray[np.int32]
    num_altered: int
    num_tokens: int
    secret: bool
    dropped: bool = False
    vaulted: bool = False


@dataclass(slots=True, frozen=True)
class Decision:
    """Whether the sample may train; ``reason`` is "eligible", `VAULT_ONLY`, or the first reason against."""

    eligible: bool
    reason: str


def decide(
    policy: AdmissionPolicy, training_consent: bool, sample: Sample | None, status: int, delivery: str, never: str = ""
) -> Decision:
    """The decision on one choice, or on an exchange without tokens (``sample`` None).

    ``never``: why nothing of this exchange trains, whatever else is true of it (`EXTERNAL`, `INTERNAL_CALL`).
    """
    reason = never or _against_exchange(training_consent, status, delivery)
    if reason is None:
        reason = "no_tokens" if sample is None else _against_sample(policy, sample)
    if reason is None and sample is not None and _is_altered(policy, sample):
        return Decision(True, VAULT_ONLY)
    return Decision(reason is None, reason or "eligible")


def _is_altered(policy: AdmissionPolicy, sample: Sample) -> bool:
    return sample.num_altered > policy.max_altered * sample.num_tokens


def _against_exchange(training_consent: bool, status: int, delivery: str) -> str | None:
    if not training_consent:
        return "no_consent"
    if delivery != "complete":
        return delivery
    return "http_error" if status != 200 else None


def _against_sample(policy: AdmissionPolicy, sample: Sample) -> str | None:
    if sample.fault:
        return sample.fault
    if not len(sample.logprobs):
        return "no_tokens"
    if sample.finish_reason == "abort" or sample.finish_reason is None:
        return "engine_abort"
    if sample.finish_reason == "length" and not policy.allow_truncated:
        return "truncated"
    if (setting := inexact_setting(sample.sampling)) is not None:
        return f"sampling_{setting}"
    if not np.isfinite(sample.logprobs).all() or (sample.logprobs > 0).any() or (sample.logprobs <= -9999).any():
        return "bad_logprobs"
    if (sample.versions < 0).any():
        return "unknown_version"
    if _is_altered(policy, sample) and not sample.vaulted:
        return "altered"
    if sample.secret:
        return "secret_in_answer"
    return "dropped_kind" if sample.dropped else None


def inexact_setting(sampling: Mapping[str, Setting]) -> str | None:
    """The first setting under which the recorded logprobs are not the ones sampled from; None if there is none."""
    temperature = sampling.get("temperature")
    if not isinstance(temperature, int | float) or temperature <= 0:
        return "temperature"
    top_k = sampling.get("top_k")
    if top_k is not None and not (isinstance(top_k, int) and (top_k <= 0 or top_k >= _ALL_TOKENS)):
        return "top_k"
    return next((name for name, neutral in _NEUTRAL.items() if sampling.get(name) not in neutral), None)
