"""Admission: which samples have the behaviour probabilities that their logprobs say, and every reason against."""

from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pytest

from dataproxy.admit import REASONS, AdmissionPolicy, Sample, decide
from dataproxy.admit.decide import inexact_setting
from dataproxy.capture.records import Delivery

GOOD = Sample(
    finish_reason="stop",
    fault="",
    sampling={"temperature": 0.7, "top_p": 1.0, "top_k": -1, "min_p": 0, "grammar": False, "max_new_tokens": 9},
    logprobs=np.array([-0.5, 0.0], np.float32),
    versions=np.array([3, 4], np.int32),
    num_altered=0,
    num_tokens=20,
    secret=False,
)
POLICY = AdmissionPolicy()


def reason(
    sample: Sample | None, consent: bool = True, status: int = 200, delivery: str = "complete", policy: AdmissionPolicy = POLICY
) -> str:
    decision = decide(policy, consent, sample, status, delivery)
    assert decision.eligible == (decision.reason == "eligible")
    assert decision.reason in REASONS
    return decision.reason


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("temperature", 0),
        ("temperature", None),
        ("top_p", 0.9),
        ("top_k", 50),
        ("top_k", 1),
        ("min_p", 0.05),
        ("frequency_penalty", 0.1),
        ("presence_penalty", -1),
        ("repetition_penalty", 1.1),
        ("min_new_tokens", 4),
        ("logit_bias", '{"5": 10}'),
        ("grammar", True),
        ("json_schema", "{}"),
        ("regex", "a+"),
    ],
)
def test_a_setting_that_changes_what_is_sampled_is_not_trainable(setting: str, value: Any) -> None:
    assert reason(replace(GOOD, sampling=GOOD.sampling | {setting: value})) == f"sampling_{setting}"


@pytest.mark.parametrize("top_k", [-1, 0, 1 << 30])
def test_top_k_off_in_any_of_its_forms_is_exact(top_k: int) -> None:
    assert inexact_setting(GOOD.sampling | {"top_k": top_k}) is None


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, "eligible"),
        ({"finish_reason": "length"}, "eligible"),
        ({"finish_reason": "abort"}, "engine_abort"),
        ({"finish_reason": None}, "engine_abort"),
        ({"fault": "unequal_lengths"}, "unequal_lengths"),
        ({"logprobs": np.array([np.nan, -1], np.float32)}, "bad_logprobs"),
        ({"logprobs": np.array([-np.inf, -1], np.float32)}, "bad_logprobs"),
        ({"logprobs": np.array([0.1, -1], np.float32)}, "bad_logprobs"),
        ({"logprobs": np.array([-9999, -1], np.float32)}, "bad_logprobs"),
        ({"versions": np.array([-1, 4], np.int32)}, "unknown_version"),
        ({"num_altered": 3}, "eligible"),
        ({"num_altered": 4}, "altered"),
        ({"secret": True}, "secret_in_answer"),
        ({"logprobs": np.array([], np.float32), "versions": np.array([], np.int32)}, "no_tokens"),
    ],
)
def test_each_sample_has_its_reason(change: dict[str, Any], expected: str) -> None:
    assert reason(replace(GOOD, **change)) == expected


def test_the_exchange_is_judged_before_its_sample() -> None:
    assert reason(GOOD, consent=False) == "no_consent"
    assert reason(GOOD, delivery="aborted") == "aborted"
    assert reason(GOOD, status=503) == "http_error"
    assert reason(None) == "no_tokens"
    assert reason(replace(GOOD, finish_reason="length"), policy=AdmissionPolicy(allow_truncated=False)) == "truncated"


def test_the_policys_version_changes_with_its_settings() -> None:
    assert AdmissionPolicy().version == AdmissionPolicy().version != AdmissionPolicy(max_altered=0.2).version


def test_however_a_delivery_ended_its_reason_is_on_the_list() -> None:
    for delivery in {*get_args(Delivery), "incomplete"} - {"complete"}:
        assert reason(GOOD, delivery=delivery) == delivery
