"""One conversation with tools, spoken in three dialects: the same event, the same trajectory, the same training sample."""

from typing import Any

import pytest
from sqlalchemy import select

from atdp.events import Event
from dataproxy.store.reading import find_event
from dataproxy.store.schema import eligibility, event, token_segment
from tests.dataproxy.exchanges import call_in, record
from tests.dataproxy.lease.test_leases import lease, reward, stored
from tests.dataproxy.proxy import Proxy

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
FUNCTION = {"name": "weather", "description": "d", "parameters": SCHEMA}
CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Oslo"}'}}
FIRST_IDS, SECOND_IDS = ([1, 2, 3], [4, 5]), ([1, 2, 3, 4, 5, 6, 7], [8, 5])


def chat() -> tuple[Any, Any, Any, Any]:
    system, asked = {"role": "system", "content": "Be brief."}, {"role": "user", "content": "Weather?"}
    said = {"role": "assistant", "content": "I look.", "reasoning_content": "hm", "tool_calls": [CALL]}
    tools = {"tools": [{"type": "function", "function": FUNCTION}]}
    echoed = {**said, "tool_calls": [{**CALL, "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}]}
    del echoed["reasoning_content"]
    result = {"role": "tool", "tool_call_id": "c1", "content": "rain"}
    return (
        {"messages": [system, asked], **tools},
        {"choices": [{"index": 0, "message": said, "finish_reason": "tool_calls"}]},
        {"messages": [system, asked, echoed, result], **tools},
        {"choices": [{"index": 0, "message": {"role": "assistant", "content": "Rain."}, "finish_reason": "stop"}]},
    )


def messages() -> tuple[Any, Any, Any, Any]:
    tools = [{"name": "weather", "description": "d", "input_schema": SCHEMA, "cache_control": {"type": "ephemeral"}}]
    use = {"type": "tool_use", "id": "c1", "name": "weather", "input": {"city": "Oslo"}}
    text = {"type": "text", "text": "I look."}
    asked = {"role": "user", "content": [{"type": "text", "text": "Weather?"}]}
    result = {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "rain"}]}],
    }
    base = {"system": [{"type": "text", "text": "Be brief."}], "tools": tools, "max_tokens": 9}

    def answer(reason: str, *blocks: Any) -> dict[str, Any]:
        return {"type": "message", "role": "assistant", "content": list(blocks), "stop_reason": reason}

    return (
        {"messages": [asked], **base},
        answer("tool_use", {"type": "thinking", "thinking": "hm"}, text, use),
        {"messages": [asked, {"role": "assistant", "content": [text, use]}, result], **base},
        answer("end_turn", {"type": "text", "text": "Rain."}),
    )


def responses(linked: bool = False) -> tuple[Any, Any, Any, Any]:
    base = {"instructions": "Be brief.", "tools": [{"type": "function", **FUNCTION}]}
    asked = {"role": "user", "content": [{"type": "input_text", "text": "Weather?"}]}
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]}
    said = {"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]}
    call = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "weather", "arguments": '{"city":"Oslo"}'}
    result = {"type": "function_call_output", "call_id": "c1", "output": "rain"}
    last = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Rain."}]}
    items = [result] if linked else [asked, thought, said, call, result]
    return (
        {"input": [asked], **base},
        {"status": "completed", "output": [thought, said, call]},
        {"input": items, **base},
        {"status": "completed", "output": [last]},
    )


def linked_responses() -> tuple[Any, Any, Any, Any]:
    return responses(linked=True)


async def converse(proxy: Proxy, dialect: str, turns: tuple[Any, Any, Any, Any], linked: bool = False) -> list[str]:
    """Two calls of one agent that names no session; gives their event ids."""
    now = proxy.clock()
    first = call_in(dialect, turns[0], turns[1], prompt=FIRST_IDS[0], outputs=[FIRST_IDS[1]], started_us=now)
    link = {"previous_response_id": first[0].completion_id} if linked else {}
    second = call_in(dialect, turns[2] | link, turns[3], prompt=SECOND_IDS[0], outputs=[SECOND_IDS[1]], started_us=now + 1000)
    return await stored(proxy, first, second)


def read(proxy: Proxy, event_id: str) -> Event:
    with proxy.services.database.read() as connection:
        found = find_event(connection, "acme", event_id)
    assert found is not None
    return found


SPOKEN = [
    ("chat", chat, False),
    ("messages", messages, False),
    ("responses", responses, False),
    ("responses", linked_responses, True),
]


@pytest.mark.parametrize(("dialect", "turns", "linked"), SPOKEN)
async def test_a_dialect_makes_the_events_that_chat_makes(proxy: Proxy, dialect: str, turns: Any, linked: bool) -> None:
    expected = [read(proxy, e) for e in await converse(proxy, "chat", chat())]
    found = [read(proxy, e) for e in await converse(proxy, dialect, turns(), linked)]
    for i, (mine, theirs) in enumerate(zip(found, expected, strict=True)):
        assert mine.a == theirs.a and mine.h == theirs.h
        assert mine.y["finish_reasons"] == theirs.y["finish_reasons"] == [["tool_calls"], ["stop"]][i]
        assert mine.o["tools"] == theirs.o["tools"] == [{"type": "function", "function": FUNCTION}]
        assert mine.m["tools"] == theirs.m["tools"] and list(mine.m["tools"]) == ["weather"]
    assert found[0].o["messages"] == expected[0].o["messages"]
    assert found[0].m["harness"] == expected[0].m["harness"] or dialect == "messages"  # which must name max_tokens
    assert found[1].m.get("previous_event_id") == (found[0].event_id if linked else None)
    if not linked:
        assert [m["role"] for m in found[1].o["messages"]] == ["system", "user", "assistant", "tool"]
        assert found[1].o["messages"][3] == expected[1].o["messages"][3]


@pytest.mark.parametrize(("dialect", "turns", "linked"), SPOKEN)
async def test_a_dialect_makes_one_trajectory_and_one_sample(proxy: Proxy, dialect: str, turns: Any, linked: bool) -> None:
    first, second = await converse(proxy, dialect, turns(), linked)
    rows = proxy.rows(select(event).where(event.c.kind == "model_call").order_by(event.c.position))
    assert len({row.trajectory_id for row in rows}) == 1 and rows[1].parent_id == first
    assert proxy.rows(select(token_segment.c.parent_event).where(token_segment.c.event_id == second)) == [(first,)]
    prefix = {"chat": "chatcmpl-", "messages": "msg_", "responses": "resp_"}[dialect]
    target = str(read(proxy, first).m["completion_id"])
    assert target.startswith(prefix)
    reward(proxy, target, 0.5)
    proxy.clock.advance(10)
    (sample,) = lease(proxy).samples
    (sequence,) = sample.sequences
    assert sequence.ids().tolist() == [*SECOND_IDS[0], *SECOND_IDS[1]]
    assert sequence.mask().tolist() == [False] * 3 + [True] * 2 + [False] * 2 + [True] * 2


async def test_an_engine_that_says_length_goes_above_a_parser_that_says_tool_calls(proxy: Proxy) -> None:
    request, answer, _, _ = chat()
    cut = call_in("chat", request, answer, prompt=[1], engine_record=record("r", [1], [[2]], finish_reason="length"))
    (event_id,) = await stored(proxy, cut)
    found = read(proxy, event_id)
    assert found.y["finish_reasons"] == ["length"] and found.y["given_finish_reasons"] == ["tool_calls"]
    assert proxy.rows(select(event.c.finish_reason)) == [("length",)]
    assert proxy.rows(select(token_segment.c.finish_reason)) == [("length",)]


async def test_an_answer_that_the_engine_aborted_is_aborted_and_not_cut_by_length(proxy: Proxy) -> None:
    request, answer, _, _ = messages()
    aborted = record("r", [1], [[2]], finish_reason="abort", incomplete="aborted")
    (event_id,) = await stored(proxy, call_in("messages", request, answer | {"stop_reason": "end_turn"}, engine_record=aborted))
    assert read(proxy, event_id).y["finish_reasons"] == ["abort"]
    assert proxy.rows(select(eligibility.c.eligible, eligibility.c.reason)) == [(False, "record_incomplete")]


async def test_an_unknown_dialect_is_sealed(proxy: Proxy) -> None:
    import msgspec

    asked, got = call_in("chat", {"messages": []}, {"choices": []})
    await stored(proxy, (msgspec.structs.replace(asked, dialect="new"), got))
    assert proxy.rows(select(event.c.event_id)) == []
