"""Tool calls out of the messages that come back: one event a call, joined by its id, in every dialect that has tools."""

from typing import Any

import msgspec
import pytest
from sqlalchemy import select

from dataproxy.client.trajectory_types import TrajectoryQuery
from dataproxy.store.reading import events_of, list_events
from dataproxy.store.review_queue import uncertain
from dataproxy.store.schema import content, event, trajectory
from dataproxy.store.trajectories import list_trajectories
from tests.dataproxy.exchanges import call_in, exchange, user, write
from tests.dataproxy.proxy import SECRET_WORD, UNSURE_WORD, Proxy

ASKED = [{"id": "call_1", "type": "function", "function": {"name": "lookup", "arguments": '{"order": "A-7"}'}}]


def asks(*calls: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": list(calls or ASKED)}


def gave(text: str, call_id: str = "call_1", **more: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": text, **more}


def call(call_id: str, arguments: str = "{}") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": "f", "arguments": arguments}}


async def drained(proxy: Proxy, *pairs: Any) -> None:
    """Each in a batch of its own."""
    for pair in pairs:
        journal = proxy.journal()
        await write(journal, pair)
        journal.close()
        proxy.drain()


def tool_events(proxy: Proxy) -> list[Any]:
    (row,) = proxy.rows(select(trajectory).where(trajectory.c.num_events > 0))
    with proxy.services.database.read() as connection:
        return [one for one in events_of(connection, "acme", row.trajectory_id) if one.kind == "tool_call"]


@pytest.mark.parametrize("together", [True, False])
async def test_a_result_becomes_one_event_however_often_the_history_is_sent_again(proxy: Proxy, together: bool) -> None:
    history = [user("where is my order?")]
    first = exchange(history, answers=[asks()], started_us=10)
    echoed = {**asks(), "content": "", "tool_calls": [{**ASKED[0], "function": {"name": "lookup", "arguments": '{"order":"A-7"}'}}]}
    history += [echoed, gave(f"shipped, door code {SECRET_WORD}")]
    second = exchange(history, "it has shipped", started_us=20)
    third = exchange(
        [*history, {"role": "assistant", "content": "it has shipped"}, user("thanks")], "you are welcome", started_us=30
    )
    if together:
        journal = proxy.journal()
        await write(journal, first, second, third)
        journal.close()
        proxy.drain()
    else:
        await drained(proxy, first, second, third)
    (made,) = tool_events(proxy)
    assert made.a == {"name": "lookup", "call_id": "call_1", "arguments": '{"order":"A-7"}'}
    assert made.o == {"messages": [gave("shipped, door code <PASSWORD_1>")]} and made.y == {"is_error": False}
    assert made.parent_id == first[0].event_id and made.m == {"brought_by": second[0].event_id}
    assert [span.kind for span in made.spans] == ["PASSWORD"]
    rows = proxy.rows(select(event.c.kind, event.c.seq).order_by(event.c.position))
    assert [tuple(row) for row in rows] == [("model_call", 0), ("tool_call", 1), ("model_call", 1), ("model_call", 2)]
    assert SECRET_WORD.encode() not in proxy.everything_at_rest()


async def test_ids_that_a_model_uses_again_are_calls_of_their_own(proxy: Proxy) -> None:
    history: list[Any] = [user("do it twice, then otherwise")]
    pairs = []
    for n, arguments in enumerate(('{"n": 1}', '{"n": 1}', '{"n": 2}')):
        pairs.append(exchange(history, answers=[asks(call("call_0", arguments))], started_us=10 * n))
        history = [*history, asks(call("call_0", arguments)), gave(f"done {n}", "call_0")]
    await drained(proxy, *pairs, exchange(history, "done", started_us=100))
    assert [one.o["messages"][0]["content"] for one in tool_events(proxy)] == ["done 0", "done 1", "done 2"]


async def test_parallel_calls_are_joined_each_to_its_own_and_a_history_met_for_the_first_time_is_told_whole(proxy: Proxy) -> None:
    history = [user("a"), asks(call("c1", '{"n":1}'), call("c2", '{"n":2}')), gave("two", "c2"), gave("one", "c1"),
               asks(call("c3")), gave("three", "c3")]  # fmt: skip
    await drained(proxy, exchange(history, "done"))
    found = {one.a["call_id"]: one for one in tool_events(proxy)}
    assert {name: one.o["messages"][0]["content"] for name, one in found.items()} == {"c1": "one", "c2": "two", "c3": "three"}
    assert found["c1"].a["arguments"] == '{"n":1}' and {one.parent_id for one in found.values()} == {None}


RESULTS: list[tuple[str, dict[str, Any], str | None]] = [
    ("fine", {}, None),
    ("Errors were found: none", {}, None),
    ('{"error": null, "ok": 1}', {}, None),
    ("[1, 2]", {}, None),
    ("Traceback (most recent call last):\n …", {}, "in_result"),
    ("Error: no such order", {}, "in_result"),
    ('{"error": "no such order"}', {}, "in_result"),
    ('{"isError": true, "content": []}', {}, "in_result"),
    ("whatever", {"is_error": True}, "reported"),
]


async def test_a_failed_tool_is_seen(proxy: Proxy) -> None:
    journal = proxy.journal()
    for n, (text, more, _) in enumerate(RESULTS):
        await write(journal, exchange([user("a"), asks(), gave(text, **more)], "hm", session=f"s{n}"))
    journal.close()
    proxy.drain()
    with proxy.services.database.read() as connection:
        made = {one.session_id: one.y for _, one in list_events(connection, "acme", 100, 0, None, "tool_call")}
    assert made == {
        f"s{n}": {"is_error": True, "error": {"type": error}} if error else {"is_error": False}
        for n, (_, _, error) in enumerate(RESULTS)
    }


async def test_two_conversations_that_begin_alike_keep_their_calls_apart(proxy: Proxy) -> None:
    history = [user("a"), asks(), gave("x")]
    await drained(proxy, exchange(history, "b", session="s1"), exchange(history, "b", session="s2"))
    rows = proxy.rows(select(event.c.session_id).where(event.c.kind == "tool_call"))
    assert sorted(row.session_id for row in rows) == ["s1", "s2"]
    assert len({row.digest for row in proxy.rows(select(content))}) == 4  # what was said is stored once


def in_messages(result: str) -> tuple[Any, Any]:
    """Two calls of Anthropic's Messages."""
    ask = {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "lookup", "input": {"order": "A-7"}}]}
    back = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": result, "is_error": True}]}
    first = {"type": "message", "role": "assistant", "content": ask["content"], "stop_reason": "tool_use"}
    said = {"type": "message", "role": "assistant", "content": [{"type": "text", "text": "sorry"}], "stop_reason": "end_turn"}
    asked = {"messages": [user("where?")], "max_tokens": 9}
    return call_in("messages", asked, first), call_in("messages", {**asked, "messages": [user("where?"), ask, back]}, said)


def in_responses(result: str, order: str = "A-7") -> tuple[Any, Any]:
    """Two calls of OpenAI's Responses, the whole history in the second."""
    ask = {"type": "function_call", "call_id": "toolu_1", "name": "lookup", "arguments": '{"order":"' + order + '"}'}
    back = {"type": "function_call_output", "call_id": "toolu_1", "output": f"Error: {result}"}
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "sorry"}]}
    first = call_in("responses", {"input": [user("where?")]}, {"output": [ask], "status": "completed"})
    return first, call_in("responses", {"input": [user("where?"), ask, back]}, {"output": [said], "status": "completed"})


def in_responses_stored(result: str, order: str = "A-7") -> tuple[Any, Any]:
    """The same, but the second names the first and sends the result alone."""
    first, (asked, got) = in_responses(result, order)
    back = {"type": "function_call_output", "call_id": "toolu_1", "output": f"Error: {result}"}
    body = {"model": "tiny", "input": [back], "previous_response_id": first[0].completion_id}
    return first, (msgspec.structs.replace(asked, body=msgspec.json.encode(body)), got)


@pytest.mark.parametrize("dialect", [in_messages, in_responses, in_responses_stored])
@pytest.mark.parametrize("together", [True, False])
async def test_every_dialect_with_tools_tells_of_them(proxy: Proxy, dialect: Any, together: bool) -> None:
    first, second = dialect("no such order")
    if together:
        journal = proxy.journal()
        await write(journal, first, second)
        journal.close()
        proxy.drain()
    else:
        await drained(proxy, first, second)
    (made,) = tool_events(proxy)
    assert (made.a["name"], made.a["call_id"]) == ("lookup", "toolu_1")
    assert msgspec.json.decode(made.a["arguments"]) == {"order": "A-7"}
    assert made.y["is_error"] and "no such order" in made.o["messages"][0]["content"]
    assert made.parent_id == first[0].event_id


@pytest.mark.parametrize("dialect", [in_responses, in_responses_stored])
@pytest.mark.parametrize("together", [True, False])
async def test_what_was_redacted_in_a_call_and_in_its_result_is_marked_in_its_event(
    proxy: Proxy, dialect: Any, together: bool
) -> None:
    first, second = dialect(f"no such order, mail {SECRET_WORD}", f"of {SECRET_WORD}")
    journal = proxy.journal()
    for pair in (first, second):
        await write(journal, pair)
        if not together:
            proxy.drain()
    journal.close()
    proxy.drain()
    (made,) = tool_events(proxy)
    in_arguments, in_result = made.spans
    assert (in_arguments.path, in_result.path) == ("/a/arguments", "/request/messages/0/content")
    texts = (made.a["arguments"], made.o["messages"][0]["content"])
    found = [text[span.start : span.end] for text, span in zip(texts, made.spans, strict=True)]
    assert found == ["<PASSWORD_1>", "<PASSWORD_1>"] and {span.kind for span in made.spans} == {"PASSWORD"}


async def test_a_value_in_a_call_counts_once_and_waits_for_one_look(proxy: Proxy) -> None:
    asked = call("call_1", '{"name": "' + UNSURE_WORD + '"}')
    first = exchange([user("who?")], answers=[asks(asked)], started_us=10)
    await drained(proxy, first, exchange([user("who?"), asks(asked), gave("nobody")], "nobody", started_us=20))
    (made,) = tool_events(proxy)
    assert [span.kind for span in made.spans] == ["PERSON"]
    with proxy.services.database.read() as connection:
        (row,) = list_trajectories(connection, "acme", TrajectoryQuery(), (), "", 10).rows
        waiting, _ = uncertain(connection, "acme", "", 10)
    assert row.redactions == {"PERSON": 1} and [one.event_id for one in waiting] == [first[0].event_id]


async def test_a_prompt_of_plain_text_has_no_tools(proxy: Proxy) -> None:
    await drained(proxy, call_in("completions", {"prompt": "tool: call_1"}, {"choices": [{"index": 0, "text": "x"}]}))
    assert tool_events(proxy) == []


async def test_a_drain_that_begins_anew_makes_no_second_event(proxy: Proxy) -> None:
    pair = exchange([user("a"), asks(), gave("x")], "b")
    await drained(proxy, pair)
    proxy.restart()
    again = exchange([user("a"), asks(), gave("x"), {"role": "assistant", "content": "b"}, user("c")], "d")
    await drained(proxy, again)
    assert len(tool_events(proxy)) == 1
