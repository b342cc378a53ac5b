"""Real SGLang through the gateway: the ids that the scheduler sampled are the ids that are recorded, whatever text they make.

The scheduler's side comes from the tests' own tap, which shares no code with the plug-in.
"""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from atdp.arrays import FLOAT32, INT32, decode
from tests.cases.edge import Edge, running_edge
from tests.cases.speech import CHAT, COMPLETIONS, Speech
from tests.engine_fixture import RunningEngine

# isort: split
from transformers import AutoTokenizer  # after `workers`, which makes it importable

pytestmark = [pytest.mark.engine, pytest.mark.asyncio(loop_scope="module")]

NUM_TRIES = 8


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def edge(sglang_engine: RunningEngine) -> AsyncIterator[Edge]:
    async with running_edge([sglang_engine.url]) as running:
        yield running
        running.hang_up()


async def ask(edge: Edge, speech: Speech, **more: Any) -> tuple[str, str, dict[str, Any]]:
    """(text, rid, record) of an answer, streamed or not."""
    wire = await edge.open()
    wire.ask(speech.path, {**speech.ask(), "temperature": 1.0, **more})
    head, body = await wire.answer()
    assert head.status == 200, body
    asked, got = await edge.exchange(head.event_id)
    wire.leave()
    return text_of(body, bool(more.get("stream"))), asked.completion_id, json.loads(got.record)


def text_of(body: bytes, is_stream: bool) -> str:
    """The text of the first choice."""
    lines = body.decode().split("\n\n") if is_stream else [f"data: {body.decode()}"]
    documents = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
    choices = [document["choices"][0] for document in documents if document["choices"]]
    return "".join(one.get("text") or (one.get("delta") or one.get("message") or {}).get("content") or "" for one in choices)


def ids_in(record: dict[str, Any]) -> list[int]:
    """The recorded output, with as many logprobs."""
    (choice,) = record["choices"]
    ids = decode(choice["output_ids"], INT32)
    assert len(decode(choice["logprobs"], FLOAT32)) == len(ids) and "incomplete" not in record
    return [int(one) for one in ids]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("speech", [CHAT, COMPLETIONS], ids=lambda speech: speech.name)
async def test_a_word_made_of_other_ids_than_its_own_is_recorded_as_sampled(
    edge: Edge, sglang_engine: RunningEngine, speech: Speech, stream: bool
) -> None:
    tokenizer = AutoTokenizer.from_pretrained(sglang_engine.model_dir)
    own = tokenizer("hello hello", add_special_tokens=False)["input_ids"]
    seen = []
    for _ in range(NUM_TRIES):
        text, rid, record = await ask(edge, speech, regex="hello hello", max_tokens=30, stream=stream)
        (tapped,) = sglang_engine.tapped(rid)
        assert text == "hello hello" and ids_in(record) == tapped.output_ids
        seen.append([one for one in tapped.output_ids if one not in tokenizer.all_special_ids])
    assert all(tokenizer.decode(ids) == "hello hello" for ids in seen)
    assert any(ids != own for ids in seen), "no try spelled the word in other ids"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("speech", [CHAT, COMPLETIONS], ids=lambda speech: speech.name)
async def test_a_character_split_over_tokens_is_whole_in_the_text_and_exact_in_the_ids(
    edge: Edge, sglang_engine: RunningEngine, speech: Speech, stream: bool
) -> None:
    num_split = 0
    for _ in range(NUM_TRIES):
        text, rid, record = await ask(edge, speech, regex="[你好🎉é]{6}", max_tokens=60, stream=stream)
        (tapped,) = sglang_engine.tapped(rid)
        assert len(text) == 6 and set(text) <= set("你好🎉é") and "\ufffd" not in text
        assert ids_in(record) == tapped.output_ids
        num_split += len(tapped.output_ids) > 7
    assert num_split, "no try split a character"


async def test_several_choices_at_once_are_each_as_sampled(edge: Edge, sglang_engine: RunningEngine) -> None:
    wire = await edge.open()
    wire.ask(CHAT.path, CHAT.ask("say something", n=3, max_tokens=8, temperature=1.0, seed=1, logprobs=True, top_logprobs=2))
    head, body = await wire.answer()
    asked, got = await edge.exchange(head.event_id)
    record, answer = json.loads(got.record), json.loads(body)
    found = sorted([int(one) for one in decode(choice["output_ids"], INT32)] for choice in record["choices"])
    tapped = [one for one in sglang_engine.tapped(asked.completion_id) if one.rid != f"{asked.completion_id}_s0"]
    assert found == sorted(one.output_ids for one in tapped) and len(found) == 3
    for choice, recorded in zip(answer["choices"], record["choices"], strict=True):
        told = [one["logprob"] for one in choice["logprobs"]["content"]]
        assert told == pytest.approx(decode(recorded["logprobs"], FLOAT32).tolist()[: len(told)], abs=1e-5)
