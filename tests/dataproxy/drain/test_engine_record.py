"""The record as the plug-in really writes it: its settings are read, and what an agent wrote among them is not kept."""

from types import SimpleNamespace

from dataproxy.admit.decide import inexact_setting
from dataproxy.drain.engine_record import read_record
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
