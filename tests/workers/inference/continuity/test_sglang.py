"""Continuity in real SGLang on the CPU, seen by the tests' own tap in the scheduler."""

import json
import random
from typing import Any

import pytest

from tests.workers.inference.continuity.conftest import Served, events
from tests.workers.inference.continuity.families import QWEN3
from tests.workers.inference.continuity.oracle import meaning

pytestmark = pytest.mark.engine

CHAT, MESSAGES, RESPONSES = "/v1/chat/completions", "/v1/messages", "/v1/responses"
NUM_TURNS = 20
TOOL = {
    "type": "function",
    "function": {"name": "search", "description": "search", "parameters": {"type": "object", "properties": {}}},
}
CALL = r'<tool_call>\n\{"name": "search", "arguments": \{"query": "[a-z]{3,8}", "limit": [1-9]\}\}\n</tool_call>'
THINKS_AND_CALLS = rf"<think>\n[a-z ]{{5,20}}\n</think>\n\n{CALL}"
THINKS_AND_TELLS = r"<think>\n[a-z ]{5,20}\n</think>\n\n[a-z ]{5,20}"


def chat(served: Served, messages: list[dict[str, Any]], salt: str | None, regex: str, **body: Any) -> dict[str, Any]:
    """One call that answers in the form of `regex`; the message as an agent puts it together."""
    response = served.call(CHAT, salt, messages=messages, tools=[TOOL], regex=regex, max_tokens=300, temperature=1, **body)
    return _joined(events(response.text)) if body.get("stream") else dict(response.json()["choices"][0]["message"])


def _joined(chunks: list[dict[str, Any]]) -> dict[str, Any]:
    deltas = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
    calls: dict[int, dict[str, Any]] = {}
    for part in (call for delta in deltas for call in delta.get("tool_calls") or ()):
        call = calls.setdefault(part["index"], {"id": part["id"], "type": "function", "function": {"name": "", "arguments": ""}})
        for key in ("name", "arguments"):
            call["function"][key] += part["function"].get(key) or ""
    message: dict[str, Any] = {"content": "".join(delta.get("content") or "" for delta in deltas)}
    return {**message, "tool_calls": list(calls.values())} if calls else message


def echo(message: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    """As agents write it back: reasoning dropped or kept, "" or null, arguments in another order."""
    content = message["content"] or ""
    if chance.random() < 0.5:
        content = content.partition("</think>")[2].strip()
    calls = []
    for call in message.get("tool_calls") or ():
        arguments = dict(reversed(json.loads(call["function"]["arguments"]).items()))
        function = {"name": call["function"]["name"], "arguments": json.dumps(arguments, indent=chance.choice([None, 1]))}
        calls.append({"id": call["id"], "type": "function", "function": function})
    echoed: dict[str, Any] = {"role": "assistant", "content": content or chance.choice(["", None])}
    return {**echoed, "tool_calls": calls} if calls else echoed


def results(message: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"role": "tool", "tool_call_id": call["id"], "content": "found\n1"} for call in message.get("tool_calls", ())]


def test_twenty_turns_extend_the_ids_and_hit_the_prefix_cache(served: Served) -> None:
    chance = random.Random(7)
    before = served.counts()
    messages: list[dict[str, Any]] = [{"role": "system", "content": "Use tools."}]
    known: list[int] = []
    num_extended = 0
    for number in range(NUM_TURNS):
        if number in (0, 7, 14):
            messages.append({"role": "user", "content": f"Question {number}"})
        form = THINKS_AND_TELLS if number + 1 in (7, 14) else THINKS_AND_CALLS
        answer = chat(served, messages, "one", form, stream=number % 2 == 1)
        tapped = served.tapped()
        if known and tapped.prompt_ids[: len(known)] == known:
            num_extended += 1
            assert tapped.num_cached >= len(known) - 1
        stock = served.tokenizer.decode(served.stock(messages, [TOOL]))
        assert meaning(served.tokenizer.decode(tapped.prompt_ids), QWEN3) == meaning(stock, QWEN3)
        known = tapped.prompt_ids + tapped.output_ids
        messages.append(echo(answer, chance))
        messages += results(messages[-1])
    after = served.counts()
    assert num_extended >= 0.95 * NUM_TURNS
    assert after["extended"] - before["extended"] == num_extended
    assert served.tokenizer.decode(known).count("</think>") == NUM_TURNS  # all reasoning as sampled, none stripped


def test_an_edited_answer_is_rendered_as_a_branch_with_its_reason(served: Served) -> None:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Edit me"}]
    answer = echo(chat(served, messages, "one", THINKS_AND_TELLS), random.Random(0))
    before = served.counts()["rendered"].get("edited_answer", 0)
    messages += [{**answer, "content": "something else"}, {"role": "user", "content": "Go on"}]
    chat(served, messages, "one", THINKS_AND_TELLS)
    assert served.counts()["rendered"]["edited_answer"] == before + 1
    assert served.tapped().prompt_ids == served.stock(messages, [TOOL])


def test_a_tenant_never_extends_anothers_turn(served: Served) -> None:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Whose is it?"}]
    answer = echo(chat(served, messages, "one", THINKS_AND_CALLS), random.Random(0))
    messages += [answer, *results(answer)]
    before = served.counts()
    chat(served, messages, "other", THINKS_AND_CALLS)
    after = served.counts()
    assert after["extended"] == before["extended"]
    assert after["rendered"]["unknown_history"] == before["rendered"].get("unknown_history", 0) + 1
    tapped = served.tapped()
    assert tapped.num_cached == 0
    assert tapped.prompt_ids == served.stock(messages, [TOOL])


def test_a_cut_answer_is_not_extended(served: Served) -> None:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Tell me all"}]
    response = served.call(CHAT, "one", messages=messages, max_tokens=3, ignore_eos=True, temperature=1)
    messages += [{"role": "assistant", "content": response.json()["choices"][0]["message"]["content"]}]
    messages += [{"role": "user", "content": "Go on"}]
    before = served.counts()["rendered"].get("truncated", 0)
    served.call(CHAT, "one", messages=messages, max_tokens=3, temperature=1)
    assert served.counts()["rendered"]["truncated"] == before + 1


def test_a_call_without_our_salt_is_left_alone(served: Served) -> None:
    before = served.counts()
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Direct"}]
    answer = echo(chat(served, messages, None, THINKS_AND_CALLS), random.Random(0))
    chat(served, [*messages, answer, *results(answer)], None, THINKS_AND_CALLS)
    assert served.counts() == before


def test_a_session_without_thinking_keeps_its_empty_reasoning_blocks(served: Served) -> None:
    before = served.counts()["extended"]
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Don't think"}]
    for _ in range(3):
        options = {"chat_template_kwargs": {"enable_thinking": False}, "n": 2}
        response = served.call(CHAT, "one", messages=messages, tools=[TOOL], regex=CALL, max_tokens=300, temperature=1, **options)
        answer = echo(response.json()["choices"][1]["message"], random.Random(0))
        messages += [answer, *results(answer)]
    prompts = [line.prompt_ids for line in served.engine.tapped(served.rids[-1])]
    assert served.counts()["extended"] - before == 2
    assert served.tokenizer.decode(prompts[0]).count("<think>\n\n</think>\n\n") == 3


@pytest.mark.parametrize("stream", [False, True])
def test_messages_extend_too(served: Served, stream: bool) -> None:
    before = served.counts()["extended"]
    messages: list[dict[str, Any]] = [{"role": "user", "content": f"Hello {stream}"}]
    for _ in range(3):
        response = served.call(MESSAGES, "one", messages=messages, system="Be brief.", max_tokens=300, stream=stream)
        texts = (
            [event["delta"]["text"] for event in events(response.text) if event["type"] == "content_block_delta"] if stream else []
        )
        text = "".join(texts) if stream else response.json()["content"][0]["text"]
        messages += [{"role": "assistant", "content": [{"type": "text", "text": text}]}, {"role": "user", "content": "More"}]
    served.http.post("/v1/messages/count_tokens", json={"model": "tiny", "messages": messages}).raise_for_status()
    assert served.counts()["extended"] == before + 2


@pytest.mark.parametrize("by_id", [False, True], ids=["items", "previous_response_id"])
def test_responses_extend_too(served: Served, by_id: bool) -> None:
    items: list[dict[str, Any]] = [{"role": "user", "content": f"Hello {by_id}"}]
    previous: dict[str, Any] = {}
    num_answers = 0
    before = served.counts()["extended"]
    for _ in range(4):
        response = served.call(RESPONSES, "one", input=items, instructions="Be brief.", max_output_tokens=300, **previous).json()
        more = {"role": "user", "content": "More"}
        items = [more] if by_id else [*items, *response["output"], more]
        previous = {"previous_response_id": response["id"]} if by_id else {}
        num_answers += bool(response["output"])  # an answer without a token has no item to come back
    assert num_answers > 1
    assert served.counts()["extended"] - before >= num_answers - 1
