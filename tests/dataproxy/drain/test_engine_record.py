"""The record as the plug-in really writes it: its settings are read, and what an agent wrote among them is not kept."""

from types import SimpleNamespace

import msgspec
import pytest

from dataproxy.admit.decide import inexact_setting
from dataproxy.drain.engine_record import read_record, sampled_tokens
from tests.dataproxy.exchanges import record
from workers.inference.record import effective_sampling

_SGLANG_DEFAULTS = {
    "temperature": 0.9, "top_p": 1.0, "top_k": 1 << 30, "min_p": 0.0, "frequency_penalty": 0.0, "presence_penalty": 0.0,
    "repetition_penalty": 1.0, "logit_bias": None, "max_new_tokens": 64, "min_new_tokens": 0, "stop_strs": None,
    "stop_token_ids": None, "ignore_eos": False, "json_schema": None, "regex": None, "ebnf": None, "structural_tag": None,
    "custom_params": None,
}  # fmt: skip


def settings(**changes: object) -> dict[str, float | int | str | bool | None]:
    sampling = effective_sampling(SimpleNamespace(**_SGLANG_DEFAULTS | changes))
    return read_record(record("r", [1], [[2]], sampling=sampling)).settings()


def test_plain_sampling_is_exact() -> None:
    assert inexact_setting(settings()) is None
    assert settings()["temperature"] == 0.9


def test_stop_words_are_not_kept_and_do_not_matter() -> None:
    changed = settings(stop_strs=["ana12@example.com"])
    assert changed["stop"] is True
    assert "ana12" not in str(changed)
    assert inexact_setting(changed) is None


def test_bias_and_custom_processors_count_as_inexact() -> None:
    assert inexact_setting(settings(logit_bias={"7": 1.0})) == "logit_bias"
    assert inexact_setting(settings(custom_params={"x": 1})) == "custom"


@pytest.mark.parametrize(
    ("indices", "answered", "fault"),
    [
        ([0, 1], [0, 1], ""),
        ([1, 0], [0, 1], ""),
        ([0, 1], None, ""),
        ([0, 0], None, "choices_conflict"),
        ([0], [0, 1], "choices_conflict"),
        ([0, 1], [0], "choices_conflict"),
        ([0, 2], [0, 1], "choices_conflict"),
    ],
)
def test_choices_that_conflict_or_are_partial_do_not_train(indices: list[int], answered: list[int] | None, fault: str) -> None:
    body = msgspec.json.decode(record("r", [1], [[2]] * len(indices)))
    for choice, index in zip(body["choices"], indices, strict=True):
        choice["index"] = index
    assert {tokens.fault for tokens in sampled_tokens(read_record(msgspec.json.encode(body)), answered)} == {fault}


def test_an_external_models_record_has_no_tokens_but_a_price() -> None:
    external = read_record(
        b'{"v":1,"rid":"r","model":"m","engine":{"name":"litellm","version":"1"},"cost_usd":0.25,"usage":{"total_tokens":3}}'
    )
    assert external.external and external.cost_usd == 0.25 and sampled_tokens(external) == []
    assert not read_record(record("r", [1], [[2]])).external
