"""Streams with tools: text leaves as the engine gives it, calls keep their ids and places, and the record has every token."""

import json
from typing import Any

import pytest

from atdp.arrays import FLOAT32, INT32, decode
from tests.cases.edge import Edge
from tests.cases.gate import Gate
from tests.cases.speech import Speech, each_with_tools
from tests.fakes.engine import FakeEngine
from tests.fakes.generation import STOP_ID, encode

pytestmark = pytest.mark.asyncio(loop_scope="module")

CALLS = [{"name": "run", "arguments": {"command": f"echo {number}"}} for number in range(2)]
REPLY = "zest " + "".join(f"<tool_call>{json.dumps(call)}</tool_call>" for call in CALLS)


def calls_in(speech: Speech, stream: bytes) -> list[tuple[Any, str, Any]]:
    """(place, id, arguments) of each call in a stream."""
    events = [json.loads(line[6:]) for line in stream.decode().split("\n") if line.startswith("data: {")]
    if speech.name == "chat":
        deltas = [call for one in events for choice in one["choices"] for call in choice["delta"].get("tool_calls") or []]
        return [(call["index"], call["id"], json.loads(call["function"]["arguments"])) for call in deltas]
    if speech.name == "responses":
        done = [(one["output_index"], one["item"]) for one in events if one["type"] == "response.output_item.done"]
        return [(at, one["call_id"], json.loads(one["arguments"])) for at, one in done if one["type"] == "function_call"]
    opened = [one for one in events if one["type"] == "content_block_start" and one["content_block"]["type"] == "tool_use"]
    said = {one["index"]: one["delta"].get("partial_json") for one in events if one["type"] == "content_block_delta"}
    return [(one["index"], one["content_block"]["id"], json.loads(said[one["index"]])) for one in opened]


@each_with_tools
async def test_the_first_chunk_leaves_with_the_engines_and_the_record_is_exact(
    edge: Edge, engine: FakeEngine, speech: Speech
) -> None:
    gate = Gate(after=2)
    engine.model.reply, engine.model.token_gate = lambda body: REPLY, gate
    wire = await edge.open()
    wire.ask(speech.path, speech.ask(stream=True, **speech.tools))
    head = await wire.head()
    await wire.until(b'"z"')
    await gate.reached.wait()
    gate.open.set()
    await wire.rest()
    record = json.loads((await edge.exchange(head.event_id))[1].record)
    ids = decode(record["choices"][0]["output_ids"], INT32)
    assert ids.tolist() == [*encode(REPLY), STOP_ID]  # what the parser swallowed, too
    assert len(decode(record["choices"][0]["logprobs"], FLOAT32)) == len(ids)


@each_with_tools
async def test_calls_keep_the_ids_and_places_that_the_engine_gave_them(edge: Edge, engine: FakeEngine, speech: Speech) -> None:
    engine.model.reply = lambda body: REPLY
    shown = []
    for key in ("hr_acme", "hr_quiet"):
        wire = await edge.open()
        wire.ask(speech.path, speech.ask(stream=True, **speech.tools), key=key)
        _, stream = await wire.answer()
        rid = engine.calls[-1].headers["x-headrace-rid"]
        found = calls_in(speech, stream)
        assert [arguments for _, _, arguments in found] == [call["arguments"] for call in CALLS]
        assert len({one for _, one, _ in found}) == 2 and len({at for at, _, _ in found}) == 2
        shown.append([(at, one.replace(rid[-12:], "TAIL")) for at, one, _ in found])
    assert shown[0] == shown[1]
