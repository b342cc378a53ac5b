"""Fields that steer sampling reach the engine as they were sent, and each choice of an answer is a sample of its own."""

import json
from typing import Any

import pytest

from atdp.arrays import INT32, decode
from tests.cases.drained import decisions, drain, read, segments
from tests.cases.edge import Edge
from tests.cases.speech import CHAT, COMPLETIONS, MESSAGES, RESPONSES, Speech
from tests.dataproxy.proxy import Proxy
from tests.fakes.engine import FakeEngine

pytestmark = pytest.mark.asyncio(loop_scope="module")

SCHEMA = {"type": "object", "properties": {"a": {"type": "number", "minimum": 0.10}}, "required": ["a"]}
STEERING: dict[str, dict[str, Any]] = {
    "chat": {
        "response_format": {"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": SCHEMA}},
        "regex": "[a-z]+\\d{2}",
        "ebnf": 'root ::= "a"',
        "logit_bias": {"17": -100, "99": 0.5},
        "seed": 7,
        "logprobs": True,
        "top_logprobs": 5,
        "stop": ["\n\n", "END"],
        "frequency_penalty": -0.5,
        "presence_penalty": 1.25,
        "min_p": 0.05,
        "top_k": 40,
        "chat_template_kwargs": {"enable_thinking": False},
        "parallel_tool_calls": False,
    },
    "completions": {"best_of": 1, "echo": False, "suffix": "", "logprobs": 3, "seed": 7, "stop": "END", "n": 1},
    "responses": {"text": {"format": {"type": "json_schema", "name": "x", "schema": SCHEMA}}, "top_logprobs": 3, "top_p": 0.5},
    "messages": {"stop_sequences": ["END"], "top_k": 40, "thinking": {"type": "enabled", "budget_tokens": 1024}},
}


@pytest.mark.parametrize("speech", [CHAT, COMPLETIONS, RESPONSES, MESSAGES], ids=lambda speech: speech.name)
async def test_what_steers_sampling_reaches_the_engine_and_the_record(
    edge: Edge, engine: FakeEngine, proxy: Proxy, speech: Speech
) -> None:
    raw = json.dumps({**speech.ask(), **STEERING[speech.name]}).encode()
    wire = await edge.open()
    wire.ask(speech.path, raw)
    head, _ = await wire.answer()
    assert head.status == 200 and engine.calls[0].body == raw
    await drain(edge, proxy, [head.event_id])
    kept = read(proxy, head.event_id).m["request"]
    assert {name: kept.get(name) for name in STEERING[speech.name]} == STEERING[speech.name]


@pytest.mark.parametrize("speech", [CHAT, COMPLETIONS], ids=lambda speech: speech.name)
@pytest.mark.parametrize("stream", [False, True])
async def test_each_choice_is_a_sample_of_its_own(
    edge: Edge, engine: FakeEngine, proxy: Proxy, speech: Speech, stream: bool
) -> None:
    said = iter(["one", "two words", "and three"])
    engine.model.reply = lambda body: next(said)
    wire = await edge.open()
    wire.ask(speech.path, speech.ask(n=3, temperature=1.0, stream=stream))
    head, _ = await wire.answer()
    await drain(edge, proxy, [head.event_id])
    texts = [message["content"] for message in read(proxy, head.event_id).a["messages"]]
    assert texts == ["one", "two words", "and three"]
    record = json.loads((await edge.exchange(head.event_id))[1].record)
    lengths = [len(decode(choice["output_ids"], INT32)) for choice in record["choices"]]
    assert lengths == [len(text) + 1 for text in texts]
    stored = segments(proxy)
    assert [stored[head.event_id, index].num_output for index in range(3)] == lengths
    assert decisions(proxy) == {(head.event_id, index): "eligible" for index in range(3)}
