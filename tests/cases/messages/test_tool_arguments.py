"""Arguments of tool calls in histories: as strings, as objects, as what is no JSON; reordered, respaced, escaped over and over."""

import json
from typing import Any

import pytest

from tests.cases.drained import drain, read, rows
from tests.cases.edge import Edge
from tests.cases.speech import CHAT, Speech, each_with_tools
from tests.dataproxy.proxy import Proxy
from tests.fakes.engine import FakeEngine

pytestmark = pytest.mark.asyncio(loop_scope="module")

NESTED = {
    "command": 'printf "%s" "\\"\\\\n\\"" | jq \'.["a\\tb"]\'',
    "json": json.dumps({"a": json.dumps({"b": 'c "d" \\e \n é 🙂 \u2028'})}),
    "empty": "",
    "slash": "</script>\\/",
}
SAID = {"path": "a b", "lines": [1, 2], "deep": {"y": None, "x": True}}


def told(arguments: dict[str, Any]) -> str:
    """What the engine's model says to make this call."""
    return f"<tool_call>{json.dumps({'name': 'run', 'arguments': arguments})}</tool_call>"


async def call_and_echo(edge: Edge, engine: FakeEngine, speech: Speech, arguments: dict[str, Any], echo: Any) -> list[str]:
    """A tool call and the turn after it, with the call as ``echo`` makes it of what came; the ids of both exchanges."""
    engine.model.reply = lambda body: told(arguments)
    wire = await edge.open()
    wire.ask(speech.path, speech.ask("do it", **speech.tools))
    first, answer = await wire.answer()
    engine.model.reply = lambda body: "done"
    wire.ask(speech.path, {**speech.ask("", **speech.tools), **history(speech, echo(json.loads(answer)))})
    second, _ = await wire.answer()
    assert (first.status, second.status) == (200, 200)
    return [first.event_id, second.event_id]


def history(speech: Speech, answer: Any) -> dict[str, Any]:
    """The conversation with ``answer`` and the tool's result in it."""
    question = {"role": "user", "content": "do it"}
    if speech.name == "chat":
        message = answer["choices"][0]["message"]
        result = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "ok"}
        return {"messages": [question, message, result]}
    if speech.name == "responses":
        (item,) = answer["output"]
        return {"input": [question, item, {"type": "function_call_output", "call_id": item["call_id"], "output": "ok"}]}
    (block,) = answer["content"]
    result = {"type": "tool_result", "tool_use_id": block["id"], "content": "ok"}
    return {"messages": [question, {"role": "assistant", "content": [block]}, {"role": "user", "content": [result]}]}


def arguments_in(speech: Speech, body: Any) -> Any:
    """The arguments of the call in a request, as it has them."""
    if speech.name == "chat":
        return body["messages"][1]["tool_calls"][0]["function"]["arguments"]
    return body["input"][1]["arguments"] if speech.name == "responses" else body["messages"][1]["content"][0]["input"]


@each_with_tools
async def test_nested_escapes_go_all_the_way_round(edge: Edge, engine: FakeEngine, proxy: Proxy, speech: Speech) -> None:
    events = await call_and_echo(edge, engine, speech, NESTED, lambda answer: answer)
    sent = arguments_in(speech, json.loads(engine.calls[1].body))
    assert (sent if speech.name == "messages" else json.loads(sent)) == NESTED
    await drain(edge, proxy, events)
    first, second = (read(proxy, one) for one in events)
    for message in (first.a["messages"][0], second.o["messages"][1]):
        assert json.loads(message["tool_calls"][0]["function"]["arguments"]) == NESTED
    assert second.parent_id == events[0] and second.trajectory_id == first.trajectory_id


def reordered(value: Any) -> Any:
    """The same JSON with its keys the other way round."""
    if isinstance(value, dict):
        return {key: reordered(value[key]) for key in reversed(value)}
    return [reordered(one) for one in value] if isinstance(value, list) else value


FORMS = {
    "as it came": lambda given: given,
    "as an object": json.loads,
    "keys reordered": lambda given: json.dumps(reordered(json.loads(given))),
    "more space": lambda given: json.dumps(json.loads(given), indent=3),
    "less space": lambda given: json.dumps(json.loads(given), separators=(",", ":")),
    "escaped otherwise": lambda given: given.replace("p", "\\u0070"),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
async def test_arguments_in_another_form_are_the_same_turn(edge: Edge, engine: FakeEngine, proxy: Proxy, form: Any) -> None:
    def echo(answer: Any) -> Any:
        function = answer["choices"][0]["message"]["tool_calls"][0]["function"]
        function["arguments"] = form(function["arguments"])
        return answer

    events = await call_and_echo(edge, engine, CHAT, SAID, echo)
    await drain(edge, proxy, events)
    found = rows(proxy)
    assert found[events[1]].parent_id == events[0] and found[events[1]].trajectory_id == found[events[0]].trajectory_id


async def test_other_arguments_are_another_turn(edge: Edge, engine: FakeEngine, proxy: Proxy) -> None:
    def echo(answer: Any) -> Any:
        answer["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] = json.dumps({**SAID, "lines": [1, 3]})
        return answer

    events = await call_and_echo(edge, engine, CHAT, SAID, echo)
    await drain(edge, proxy, events)
    assert rows(proxy)[events[1]].parent_id is None


@pytest.mark.parametrize("arguments", ["", "{", "not JSON", '{"a": }', '"only a string"', "[1, 2]", "null", '{"a":1} and more'])
async def test_what_is_no_object_is_passed_on_untouched_and_recorded(
    edge: Edge, engine: FakeEngine, proxy: Proxy, arguments: str
) -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "run", "arguments": arguments}}
    messages = [
        {"role": "user", "content": "do it"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "error: bad arguments"},
    ]
    raw = json.dumps({"model": "tiny", "messages": messages, **CHAT.tools}).encode()
    wire = await edge.open()
    wire.ask(CHAT.path, raw)
    head, _ = await wire.answer()
    assert head.status == 200 and engine.calls[0].body == raw
    await drain(edge, proxy, [head.event_id])
    assert read(proxy, head.event_id).o["messages"] == messages
