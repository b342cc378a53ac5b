"""The record against a tap of the tests' own inside SGLang's scheduler, which shares no code with the plug-in."""

import asyncio
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conformance.answers import Answer, Choice, parse
from tests.conformance.dialects import COMPLETIONS, MESSAGES, RESPONSES, Dialect
from tests.engine_fixture import FIRST_VERSION, MODEL_NAME, RunningEngine, Tapped
from workers.inference.client import EngineClient, swap
from workers.inference.client.checksum import load_directory

pytestmark = pytest.mark.engine

MULTI_BYTE = "Répétez : 你好, 🎉🎊, Straße, ﷽, 🏳️‍🌈 and “quotes”"
TURNS = [
    {"role": "system", "content": "You sort letters."},
    {"role": "user", "content": MULTI_BYTE},
    {"role": "assistant", "content": "Gern geschehen – 再见"},
    {"role": "user", "content": "And again?"},
]
SHAPES: dict[str, dict[str, Any]] = {
    "json": {},
    "stream": {"stream": True},
    "multi_turn": {"messages": TURNS, "stream": True},
    "n2": {"n": 2},
    "stream_n2": {"n": 2, "stream": True},
    "stop": {"stop": ["a", "e", "i"], "stream": True},
    "grammar": {"response_format": {"type": "json_object"}},
    "logprobs": {"logprobs": True, "top_logprobs": 2, "stream": True},
}


def assert_same(answer: Answer, tapped: list[Tapped]) -> None:
    """Prompt ids, output ids and the version of every token are the scheduler's own."""
    assert answer.record is not None and "incomplete" not in answer.record
    assert len(tapped) == len(answer.record["choices"])
    assert all(line.prompt_ids == answer.prompt_ids for line in tapped)
    recorded = sorted(flat(answer.choice(index)) for index in range(len(tapped)))
    assert recorded == sorted((line.output_ids, line.versions) for line in tapped)


def flat(choice: Choice) -> tuple[list[int], list[str]]:
    return choice.output_ids, [version for version, start, end in choice.versions for _ in range(start, end)]


async def call(engine: RunningEngine, rid: str, salt: str = "", **body: Any) -> Answer:
    request = {
        "model": MODEL_NAME,
        "messages": [{"role": "user", "content": MULTI_BYTE}],
        "temperature": 1,
        "max_tokens": 24,
        **body,
    }
    headers = {"x-headrace-record": "1", "x-headrace-rid": rid, "x-headrace-cache-salt": salt}
    async with httpx.AsyncClient(timeout=60) as http:
        return parse(await http.post(f"{engine.url}/v1/chat/completions", json=request, headers=headers))


def samples(engine: RunningEngine, rid: str, num_choices: int) -> list[Tapped]:
    """For n > 1 SGLang first fills the prefix cache by a request that samples at most one token; that one is not an answer."""
    lines = engine.tapped(rid)
    return lines if num_choices == 1 else [line for line in lines if line.rid != f"{rid}_s0"]


@pytest.mark.parametrize("shape", SHAPES)
async def test_the_record_is_what_the_scheduler_had(sglang_engine: RunningEngine, shape: str) -> None:
    rid = f"chatcmpl-{uuid.uuid4().hex}"
    answer = await call(sglang_engine, rid, **SHAPES[shape])
    assert_same(answer, samples(sglang_engine, rid, SHAPES[shape].get("n", 1)))


DIALECT_SHAPES: dict[str, tuple[Dialect, dict[str, Any]]] = {
    "completions": (COMPLETIONS, {"prompt": MULTI_BYTE}),
    "completions_of_ids": (COMPLETIONS, {"prompt": [4093, 198, 5982, 338]}),
    "completions_n2": (COMPLETIONS, {"n": 2}),
    "completions_echo_logprobs": (COMPLETIONS, {"echo": True, "logprobs": 2}),
    "responses": (RESPONSES, {"input": MULTI_BYTE}),
    "responses_items": (RESPONSES, {"input": TURNS[1:], "instructions": "You sort letters."}),
    "messages": (MESSAGES, {"messages": TURNS[1:], "system": "You sort letters."}),
    "messages_stop": (MESSAGES, {"stop_sequences": ["a", "e", "i"]}),
}


@pytest.mark.parametrize("stream", [False, True], ids=["json", "stream"])
@pytest.mark.parametrize("shape", DIALECT_SHAPES)
async def test_the_record_of_each_dialect_is_what_the_scheduler_had(sglang_engine: RunningEngine, shape: str, stream: bool) -> None:
    dialect, fields = DIALECT_SHAPES[shape]
    rid = dialect.rid()
    headers = {"x-headrace-record": "1", "x-headrace-rid": rid}
    body = {"model": MODEL_NAME, **dialect.asks(24, temperature=1, stream=stream, **fields)}
    async with httpx.AsyncClient(timeout=60) as http:
        answer = parse(await http.post(sglang_engine.url + dialect.path, json=body, headers=headers))
    assert answer.status == 200
    assert_same(answer, samples(sglang_engine, rid, fields.get("n", 1)))


async def test_one_wrong_id_is_noticed(sglang_engine: RunningEngine) -> None:
    rid = f"chatcmpl-{uuid.uuid4().hex}"
    answer = await call(sglang_engine, rid)
    (line,) = samples(sglang_engine, rid, 1)
    for spoiled in (
        replace(line, output_ids=[line.output_ids[0] ^ 1, *line.output_ids[1:]]),
        replace(line, prompt_ids=[*line.prompt_ids[:-1], line.prompt_ids[-1] ^ 1]),
        replace(line, versions=[*line.versions[:-1], "v000099"]),
    ):
        with pytest.raises(AssertionError):
            assert_same(answer, [spoiled])


async def test_across_a_swap_every_token_bears_the_version_that_sampled_it(
    sglang_engine: RunningEngine, other_model_dir: Path
) -> None:
    rids = [f"chatcmpl-{uuid.uuid4().hex}" for _ in range(8)]
    body = {"stream": True, "max_tokens": 150, "ignore_eos": True}
    calls = [asyncio.create_task(call(sglang_engine, rid, **body)) for rid in rids]
    async with EngineClient(sglang_engine.url) as client:
        while (await client.state()).num_in_flight < len(rids):  # noqa: ASYNC110  # another process's state
            await asyncio.sleep(0.005)
        await swap(client, load_directory(other_model_dir), "v000001")
        answers = await asyncio.gather(*calls)
        await swap(client, sglang_engine.model_dir, FIRST_VERSION)
    for rid, answer in zip(rids, answers, strict=True):
        assert_same(answer, samples(sglang_engine, rid, 1))
    assert any(len(answer.choice().versions) == 2 for answer in answers), "no answer was caught between two versions"


async def test_a_cache_salt_keeps_tenants_prefixes_apart_whatever_the_body_says(sglang_engine: RunningEngine) -> None:
    messages = [{"role": "user", "content": f"{uuid.uuid4().hex} {MULTI_BYTE}"}]
    cached = []
    for salt, salt_in_body in (("a", None), ("a", None), ("b", "a"), ("", "a"), ("a", "b")):
        rid = f"chatcmpl-{uuid.uuid4().hex}"
        await call(sglang_engine, rid, salt, messages=messages, max_tokens=1, cache_salt=salt_in_body)
        cached.append(sglang_engine.tapped(rid)[0].num_cached)
    num_shared = len(sglang_engine.tapped(rid)[0].prompt_ids) - 1
    assert cached[1] == cached[4] == num_shared
    assert max(cached[0], cached[2], cached[3]) < 8  # the template's own first tokens at most
