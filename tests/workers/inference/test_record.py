"""A record is complete only where every length and id agrees; nothing is padded."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

from atdp import arrays
from workers.inference.record import Recorder

SAMPLING = SimpleNamespace(
    temperature=0.7, top_p=1.0, top_k=1 << 30, min_p=0.0, frequency_penalty=0.0, presence_penalty=0.0, repetition_penalty=1.0,
    logit_bias=None, max_new_tokens=8, min_new_tokens=0, stop_strs="x", stop_token_ids={9, 3}, ignore_eos=False,
    json_schema=None, regex=None, ebnf=None, structural_tag=None, custom_params=None,
)  # fmt: skip


def output(ids: list[int], **changed: Any) -> dict[str, Any]:
    """What SGLang says of a choice that sampled `ids` under one version."""
    meta = {
        "finish_reason": {"type": "stop"},
        "completion_tokens": len(ids),
        "output_token_logprobs": [(-0.5, token, None) for token in ids],
        "weight_versions": [{"version": "v000003", "start": 0, "end": len(ids)}],
    }
    return {"output_ids": ids, "meta_info": {**meta, **changed}}


def recorder(num_choices: int = 1) -> Recorder:
    made = Recorder("r1", "tiny", "0.5.23")
    made.expect(num_choices)
    made.on_dispatch([1, 70000, 3], SAMPLING)
    return made


def encoded(made: Recorder) -> dict[str, Any]:
    raw = made.encode()
    assert raw is not None
    return dict(json.loads(raw))


def test_a_record_holds_what_went_in_and_what_came_out() -> None:
    made = recorder()
    made.on_output(0, output([5, 6]))
    record = encoded(made)
    assert (record["v"], record["rid"], record["model"], record["engine"]) == (
        1,
        "r1",
        "tiny",
        {"name": "sglang", "version": "0.5.23"},
    )
    assert arrays.decode(record["prompt_ids"], arrays.INT32).tolist() == [1, 70000, 3]
    (choice,) = record["choices"]
    assert arrays.decode(choice["output_ids"], arrays.INT32).tolist() == [5, 6]
    assert arrays.decode(choice["logprobs"], arrays.FLOAT32).tolist() == [-0.5, -0.5]
    assert choice["versions"] == [["v000003", 0, 2]]
    assert "incomplete" not in record


def test_sampling_parameters_are_those_after_defaults() -> None:
    made = recorder()
    made.on_output(0, output([5]))
    sampling = encoded(made)["sampling"]
    assert (sampling["top_k"], sampling["stop"], sampling["stop_token_ids"]) == (-1, ["x"], [3, 9])
    assert (sampling["grammar"], sampling["greedy"]) == (False, False)


def test_parts_of_a_stream_are_not_the_choice() -> None:
    made = recorder()
    made.on_output(0, output([5], finish_reason=None))
    assert not made.finished and made.encode() is None
    made.on_output(0, output([5, 6]))
    assert made.finished


def test_a_record_waits_for_every_choice() -> None:
    made = recorder(num_choices=2)
    made.on_output(1, output([5]))
    assert made.encode() is None
    made.on_output(0, output([6]))
    assert [choice["index"] for choice in encoded(made)["choices"]] == [0, 1]


def test_a_request_that_never_reached_the_scheduler_has_no_record() -> None:
    made = Recorder("r1", "tiny", "0.5.23")
    made.on_output(0, output([5]))
    assert made.encode() is None


SPANS_WITH_A_GAP = [{"version": "v1", "start": 0, "end": 1}, {"version": "v2", "start": 2, "end": 3}]


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"finish_reason": {"type": "abort"}}, "aborted"),
        ({"completion_tokens": 4}, "3 ids for 4 tokens"),
        ({"output_token_logprobs": [(-0.5, 5, None)]}, "logprobs of 1 tokens"),
        ({"output_token_logprobs": None}, "logprobs of 0 tokens"),
        ({"output_token_logprobs": [(-0.5, token, None) for token in (5, 7, 6)]}, "do not belong"),
        ({"weight_versions": None}, "spans"),
        ({"weight_versions": [{"version": "v1", "start": 0, "end": 2}]}, "spans"),
        ({"weight_versions": SPANS_WITH_A_GAP}, "spans"),
    ],
)
def test_what_disagrees_is_named_and_not_padded(changed: dict[str, Any], reason: str) -> None:
    made = recorder()
    made.on_output(0, output([5, 6, 7], **changed))
    record = encoded(made)
    assert reason in record["incomplete"]
    assert arrays.decode(record["choices"][0]["output_ids"], arrays.INT32).tolist() == [5, 6, 7]


def test_one_incomplete_choice_makes_the_record_incomplete() -> None:
    made = recorder(num_choices=2)
    made.on_output(0, output([5]))
    made.on_output(1, output([6], finish_reason={"type": "abort"}))
    assert encoded(made)["incomplete"] == "aborted"


def test_samples_of_one_request_have_rids_that_begin_with_its_own() -> None:
    made = recorder(num_choices=2)
    assert [made.next_sample_rid() for _ in range(3)] == ["r1_s0", "r1_s1", "r1_s2"]
