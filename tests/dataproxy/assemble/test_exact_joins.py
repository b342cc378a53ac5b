"""Exact ids join what messages don't: agents that echo a turn in words of their own, or name the answer that they continue."""

from typing import Any

import msgspec
import pytest

from tests.dataproxy.assemble.test_place import placed
from tests.dataproxy.exchanges import call_in, exchange, record, said, user
from tests.dataproxy.proxy import Proxy

END = 9


def first(**changes: Any) -> Any:
    return exchange([user("a")], "b", **({"prompt": [1, 2], "outputs": [[3, END]]} | changes))


def second(answer: str = "reworded by the agent", prompt: tuple[int, ...] = (1, 2, 3, END, 4), **changes: Any) -> Any:
    turns = [user("a"), said(answer), user("c")]
    return exchange(turns, **({"prompt": prompt, "outputs": [[5, END]], "started_us": 2_000_000} | changes))


@pytest.mark.parametrize("together", [True, False])
async def test_a_turn_echoed_in_other_words_joins_where_its_ids_do(proxy: Proxy, together: bool) -> None:
    one, two = first(), second()
    three = exchange([user("else")], prompt=[1, 2, 3, END, 4, 5, END, 6], outputs=[[7, END]], started_us=3_000_000)
    rows = await placed(proxy, one, two, three, together=together)
    assert len({row.trajectory_id for row in rows}) == 1 and [row.seq for row in rows] == [0, 1, 2]
    assert [row.parent_event for row in rows] == [None, one[0].event_id, two[0].event_id]
    assert [row.parent_id for row in rows] == [None, one[0].event_id, two[0].event_id]


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("change", [{"prompt": (1, 2, 3, 8, END, 4)}, {"agent": "other"}, {"tenant": "other"}, {"session": "s2"}])
async def test_other_ids_another_agent_or_another_session_join_nothing(
    proxy: Proxy, change: dict[str, Any], together: bool
) -> None:
    rows = await placed(proxy, first(session="s1" if "session" in change else None), second(**change), together=together)
    assert len({(row.tenant, row.trajectory_id) for row in rows}) == 2 and rows[1].parent_id is None


async def test_of_equal_conversations_the_one_with_the_same_ids_is_continued(proxy: Proxy) -> None:
    one, other = first(), first(outputs=[[30, END]], started_us=1_000_001)
    rows = await placed(proxy, one, other, second("b"))
    assert rows[2].parent_id == one[0].event_id == rows[2].parent_event


async def test_equal_ids_are_told_apart_by_who_was_extended(proxy: Proxy) -> None:
    one, other = first(), first(started_us=1_000_001)
    rows = await placed(proxy, one, other, second(), second(started_us=2_000_001), together=False)
    assert [row.parent_id for row in rows[2:]] == [other[0].event_id, one[0].event_id]


def continued(previous: str, prompt: tuple[int, ...], text: str = "go on", **changes: Any) -> Any:
    answer = {"status": "completed", "output": [{"type": "message", "role": "assistant", "content": text}]}
    return call_in("responses", {"input": text, "previous_response_id": previous}, answer, prompt=prompt, outputs=[[5]], **changes)


@pytest.mark.parametrize("together", [True, False])
async def test_a_response_that_names_the_one_before_is_its_continuation(proxy: Proxy, together: bool) -> None:
    one = continued("", (1, 2))
    two = continued(one[0].completion_id, (1, 2, 5, 6), started_us=2_000_000)
    three = continued(two[0].completion_id, (1, 2, 5, 6, 5, 7), started_us=3_000_000)
    fork = continued(one[0].completion_id, (1, 2, 50, 8), started_us=4_000_000)
    rows = await placed(proxy, one, two, three, fork, together=together)
    assert len({row.trajectory_id for row in rows}) == 1
    assert [row.parent_id for row in rows] == [None, one[0].event_id, two[0].event_id, one[0].event_id]
    assert [row.parent_event for row in rows] == [None, one[0].event_id, two[0].event_id, None]


async def test_an_equal_turn_behind_another_answer_is_another_conversation(proxy: Proxy) -> None:
    one, other = continued("", (1, 2), "x"), continued("", (1, 3), "y", started_us=1_000_001)
    two = continued(one[0].completion_id, (1, 2, 4), "same", started_us=2_000_000)
    echo = exchange([user("same"), said("same"), user("z")], started_us=3_000_000)
    rows = await placed(proxy, one, other, two, echo)
    assert rows[3].parent_id is None and len({row.trajectory_id for row in rows}) == 3


@pytest.mark.parametrize("previous", ["resp_" + "0" * 48, "resp_short", "x"])
async def test_an_answer_that_nobody_knows_is_continued_by_nothing(proxy: Proxy, previous: str) -> None:
    (row,) = await placed(proxy, continued(previous, (1, 2)))
    assert row.parent_id is None and row.seq == 0


async def test_anothers_answer_is_not_continued(proxy: Proxy) -> None:
    one = continued("", (1, 2))
    theirs = tuple(msgspec.structs.replace(half, agent="other") if hasattr(half, "agent") else half for half in one)
    rows = await placed(proxy, theirs, continued(one[0].completion_id, (7, 8), started_us=2_000_000))
    assert rows[1].parent_id is None and len({row.trajectory_id for row in rows}) == 2


async def test_an_answer_cut_by_length_does_not_say_how_answers_end(proxy: Proxy) -> None:
    cut = second(engine_record=record("r", [1, 2, 3, END, 4], [[3]], finish_reason="length"))
    rows = await placed(proxy, first(outputs=[[3]]), cut)
    assert rows[1].parent_id is None


@pytest.mark.parametrize("dialect", ["messages", "chat"])
async def test_an_answer_that_the_agent_began_is_echoed_as_one_turn(proxy: Proxy, dialect: str) -> None:
    asked, begun = user("a"), said("I th")
    if dialect == "messages":
        answer = {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "text", "text": "ink so."}],
            "stop_reason": "end_turn",
        }
        one = call_in("messages", {"messages": [asked, begun], "max_tokens": 9}, answer)
    else:
        one = exchange([asked, begun], "ink so.", continue_final_message=True)
    rows = await placed(proxy, one, exchange([asked, said("I think so."), user("b")], started_us=2_000_000))
    assert rows[1].parent_id == one[0].event_id and rows[1].trajectory_id == rows[0].trajectory_id
