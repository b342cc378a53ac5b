"""What the engine's record says of tokens, and what the store makes of it: nothing is counted twice, padded or guessed."""

import json
from typing import Any

import numpy as np
import pytest
from sqlalchemy import select

from atdp.arrays import FLOAT32, encode
from dataproxy.admit import AdmissionPolicy, Sample, decide
from dataproxy.store.schema import quarantine
from dataproxy.store.segments import token_records
from dataproxy.store.statistics import read_status
from tests.cases.drained import decisions, read, segments
from tests.cases.lent import lent, store
from tests.dataproxy.exchanges import SAMPLING, exchange, record, said, user
from tests.dataproxy.proxy import Proxy

TURN = 77
"""A token that ends an answer and begins the user's turn, as in templates whose stop token is the next turn's mark."""


async def test_a_stop_token_that_begins_the_next_turn_is_counted_once(proxy: Proxy) -> None:
    first = exchange([user("a")], "b", prompt=[TURN, 1, 2], outputs=[[3, TURN]])
    second = exchange(
        [user("a"), said("b"), user("c")], "d", prompt=[TURN, 1, 2, 3, TURN, 4, 5], outputs=[[6, TURN]], started_us=2_000_000
    )
    await store(proxy, first, second)
    assert segments(proxy)[second[0].event_id, 0].parent_event == first[0].event_id
    (sample,) = lent(proxy, first[0].event_id).samples
    (row,) = sample.sequences
    assert row.ids().tolist() == [TURN, 1, 2, 3, TURN, 4, 5, 6, TURN]
    assert np.flatnonzero(row.mask()).tolist() == [3, 4, 7, 8]


async def test_a_call_cut_by_length_is_truncated_whatever_the_parser_says(proxy: Proxy) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a'}}
    asked, got = exchange([user("a")], answers=[{"role": "assistant", "content": None, "tool_calls": [call]}])
    body = json.loads(got.body)
    body["choices"][0]["finish_reason"] = "tool_calls"
    cut = record(asked.completion_id, [1, 2], [[3, 4]], finish_reason="length")
    await store(proxy, (asked, changed(got, body=json.dumps(body).encode(), record=cut)))
    event = read(proxy, asked.event_id)
    assert event.y["finish_reasons"] == ["length"] and event.y["given_finish_reasons"] == ["tool_calls"]
    with proxy.services.database.read() as connection:
        (tokens,) = token_records(connection, "acme", asked.event_id)
    assert tokens.finish_reason == "length"
    strict = decide(AdmissionPolicy(allow_truncated=False), True, plain_sample("length"), 200, "complete")
    assert (strict.eligible, strict.reason) == (False, "truncated")


def plain_sample(finish_reason: str) -> Sample:
    """A sample with nothing wrong but how it ended."""
    settings = {name: value for name, value in SAMPLING.items() if not isinstance(value, dict)}
    return Sample(finish_reason, "", settings, np.array([-0.5], np.float32), np.array([0], np.int32), 0, 2, False)


def changed(half: Any, **fields: Any) -> Any:
    """``half`` with other fields."""
    return type(half)(**{name: fields.get(name, getattr(half, name)) for name in half.__struct_fields__})


def without_logprobs(given: bytes) -> bytes:
    body = json.loads(given)
    for choice in body["choices"]:
        del choice["logprobs"]
    return json.dumps(body).encode()


LOGPROBS = {
    "fewer than ids": ([-0.5, -0.5], "unequal_lengths"),
    "more than ids": ([-0.5] * 4, "unequal_lengths"),
    "none at all": ([], "unequal_lengths"),
    "NaN": ([-0.5, float("nan"), -0.5], "bad_logprobs"),
    "minus infinity": ([-0.5, float("-inf"), -0.5], "bad_logprobs"),
    "a sentinel": ([-0.5, -9999.0, -0.5], "bad_logprobs"),
    "a larger sentinel": ([-0.5, -1e30, -0.5], "bad_logprobs"),
    "a probability above one": ([-0.5, 0.25, -0.5], "bad_logprobs"),
}


@pytest.mark.parametrize(("logprobs", "reason"), LOGPROBS.values(), ids=LOGPROBS)
async def test_logprobs_that_cannot_be_make_the_sample_untrainable_and_are_never_padded(
    proxy: Proxy, logprobs: list[float], reason: str
) -> None:
    bad = record("r", [1, 2], [[3, 4, 5]], logprobs=[logprobs])
    asked, got = exchange([user("a")], engine_record=bad)
    await store(proxy, (asked, got), exchange([user("b")], prompt=[1], started_us=2_000_000))
    assert decisions(proxy)[asked.event_id, 0] == reason
    with proxy.services.database.read() as connection:
        (tokens,) = token_records(connection, "acme", asked.event_id)
        counted = read_status(connection, 0)
    kept = np.frombuffer(tokens.logprobs, "<f4")
    assert len(kept) == 3 and not (kept == 0).any()
    assert np.isnan(kept).all() if reason == "unequal_lengths" else np.array_equal(kept, np.float32(logprobs), equal_nan=True)
    assert counted.not_trainable == {reason: 1} and counted.trainable == 1
    lease = lent(proxy, asked.event_id)
    assert all(turn.event_id != asked.event_id for sample in lease.samples for row in sample.sequences for turn in row.turns)


async def test_a_record_without_any_logprobs_is_untrainable(proxy: Proxy) -> None:
    asked, got = exchange([user("a")], engine_record=without_logprobs(record("r", [1], [[2, 3]])))
    await store(proxy, (asked, got))
    assert decisions(proxy)[asked.event_id, 0] == "unequal_lengths"


async def test_logprobs_that_are_no_floats_go_to_the_quarantine(proxy: Proxy) -> None:
    body = json.loads(record("r", [1], [[2, 3]]))
    body["choices"][0]["logprobs"] = encode(np.array([0.5], FLOAT32), FLOAT32)[:-3]
    asked, got = exchange([user("a")], engine_record=json.dumps(body).encode())
    await store(proxy, (asked, got))
    assert [row.reason for row in proxy.rows(select(quarantine))] == ["record_arrays"]


def choices(*indices: int) -> bytes:
    """A record of choices with these indices."""
    body = json.loads(record("r", [1], [[2, 3 + at] for at in range(len(indices))]))
    for choice, index in zip(body["choices"], indices, strict=True):
        choice["index"] = index
    return json.dumps(body).encode()


PARTIAL = {"two of one index": (0, 0), "one of two": (0,), "the second alone": (1,), "one too many": (0, 1, 2), "none": ()}


@pytest.mark.parametrize("indices", PARTIAL.values(), ids=PARTIAL)
async def test_choices_that_conflict_or_are_missing_never_train_and_say_why(proxy: Proxy, indices: tuple[int, ...]) -> None:
    answers = [said("one"), said("two")]
    asked, got = exchange([user("a")], answers=answers, engine_record=choices(*indices))
    whole = exchange([user("b")], answers=answers, engine_record=choices(0, 1), started_us=2_000_000)
    await store(proxy, (asked, got), whole)
    found = decisions(proxy)
    reasons = {reason for (event_id, _), reason in found.items() if event_id == asked.event_id}
    sealed = {row.reason for row in proxy.rows(select(quarantine)) if row.event_id == asked.event_id}
    assert (reasons | sealed) and "eligible" not in reasons
    assert {reason for (event_id, _), reason in found.items() if event_id == whole[0].event_id} == {"eligible"}
