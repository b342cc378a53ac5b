"""Placing calls: conversations found by their messages, tokens joined by ids, branches never errors. Through the real store."""

from typing import Any

import pytest
from sqlalchemy import select

from dataproxy.assemble.borders import as_read
from dataproxy.store.schema import event, token_segment
from tests.dataproxy.exchanges import exchange, said, user, write
from tests.dataproxy.proxy import Proxy


async def placed(proxy: Proxy, *pairs: Any, together: bool = True) -> list[Any]:
    """Each exchange's event row joined with its segment, after draining."""
    journal = proxy.journal()
    for pair in pairs:
        await write(journal, pair)
        if not together:
            proxy.drain()
    journal.close()
    proxy.drain()
    same = (token_segment.c.event_id == event.c.event_id) & (token_segment.c.tenant == event.c.tenant)
    query = select(event, token_segment.c.parent_event).select_from(event.outerjoin(token_segment, same)).order_by(event.c.event_id)
    return proxy.rows(query.where(event.c.kind == "model_call"))


@pytest.mark.parametrize("together", [True, False])
async def test_turns_that_join_by_ids_are_one_trajectory_in_order(proxy: Proxy, together: bool) -> None:
    one = exchange([user("a")], "b", prompt=[1, 2], outputs=[[3]])
    two = exchange([user("a"), said("b"), user("c")], "d", prompt=[1, 2, 3, 4], outputs=[[5]], started_us=2_000_000)
    three = exchange([user("a"), said("b"), user("c"), said("d"), user("e")], prompt=[1, 2, 3, 4, 5, 6], started_us=3_000_000)
    rows = await placed(proxy, one, two, three, together=together)
    assert len({row.trajectory_id for row in rows}) == 1 and [row.seq for row in rows] == [0, 1, 2]
    assert [row.parent_event for row in rows] == [None, one[0].event_id, two[0].event_id]


@pytest.mark.parametrize("together", [True, False])
async def test_turns_whose_ids_do_not_join_are_still_one_conversation(proxy: Proxy, together: bool) -> None:
    one = exchange([user("a")], "b", prompt=[1, 2], outputs=[[3]])
    two = exchange([user("a"), said("b"), user("c")], prompt=[1, 2, 30, 4], started_us=2_000_000)
    rows = await placed(proxy, one, two, together=together)
    assert len({row.session_id for row in rows}) == 1 and len({row.trajectory_id for row in rows}) == 1
    assert [row.parent_event for row in rows] == [None, None] and rows[1].parent_id == one[0].event_id


async def test_fifty_conversations_on_one_key_are_fifty_trajectories(proxy: Proxy) -> None:
    pairs = []
    for i in range(50):
        pairs += [exchange([user("same start")], f"answer {i}"), exchange([user("same start"), said(f"answer {i}"), user("go on")])]
    rows = await placed(proxy, *pairs)
    assert len({row.trajectory_id for row in rows}) == 50 == len({row.session_id for row in rows})
    assert {row.seq for row in rows} == {0, 1}


async def test_equal_answers_are_told_apart_by_who_was_extended(proxy: Proxy) -> None:
    first, second = exchange([user("q")], "same"), exchange([user("q")], "same", started_us=1_000_001)
    follow = [exchange([user("q"), said("same"), user(f"f{i}")], started_us=2_000_000 + i) for i in range(2)]
    rows = await placed(proxy, first, second, *follow)
    assert [row.parent_id for row in rows[2:]] == [second[0].event_id, first[0].event_id]


async def test_edited_history_is_a_new_conversation_or_a_branch_and_no_error(proxy: Proxy) -> None:
    one = exchange([user("a")], "b", session="s1")
    edited = exchange([user("A, edited"), said("b"), user("c")], session="s1", started_us=2_000_000)
    compacted = exchange([{"role": "system", "content": "summary"}, user("go on")], session="s1", started_us=3_000_000)
    rows = await placed(proxy, one, edited, compacted)
    assert {row.session_id for row in rows} == {"s1"} and len({row.trajectory_id for row in rows}) == 1


async def test_a_new_root_after_idle_time_opens_another_trajectory_in_the_session(proxy: Proxy) -> None:
    one = exchange([user("task 1")], session="s1")
    two = exchange([user("task 2")], session="s1", started_us=1_000_000 + 301_000_000)
    rows = await placed(proxy, one, two)
    assert {row.session_id for row in rows} == {"s1"} and len({row.trajectory_id for row in rows}) == 2


async def test_a_session_name_means_nothing_in_another_tenant_or_agent(proxy: Proxy) -> None:
    rows = await placed(
        proxy,
        exchange([user("a")], session="s1"),
        exchange([user("a"), said("ok"), user("b")], session="s1", tenant="other"),
        exchange([user("a"), said("ok"), user("b")], session="s1", agent="other"),
    )
    assert len({(row.tenant, row.trajectory_id) for row in rows}) == 3 and {row.parent_id for row in rows} == {None}


async def test_session_names_that_were_redacted_stay_apart(proxy: Proxy) -> None:
    rows = await placed(proxy, exchange([user("a")], session="hunter2 at home"), exchange([user("a")], session="hunter2 at work"))
    assert len({row.session_id for row in rows}) == 2 and all(row.session_id.startswith("digest-") for row in rows)


CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1, "b": [2]}'}}


@pytest.mark.parametrize(
    "echo",
    [
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"content": "", "tool_calls": [CALL], "role": "assistant"},
        {"role": "assistant", "content": "", "tool_calls": [CALL], "reasoning_content": "hm"},
        {"role": "assistant", "tool_calls": [{**CALL, "index": 0, "function": {"arguments": '{"b":[2],"a":1}', "name": "f"}}]},
        {"role": "assistant", "tool_calls": [{**CALL, "function": {"arguments": {"b": [2], "a": 1}, "name": "f"}}]},
    ],
)
def test_what_agents_change_when_they_echo_a_turn_does_not_count(echo: dict[str, Any]) -> None:
    assert as_read(echo) == as_read({"role": "assistant", "content": None, "tool_calls": [CALL]})


@pytest.mark.parametrize(
    "other",
    [
        {"role": "assistant", "content": "x", "tool_calls": [CALL]},
        {"role": "user", "tool_calls": [CALL]},
        {"role": "assistant", "tool_calls": [{**CALL, "id": "c2"}]},
        {"role": "assistant", "tool_calls": [{**CALL, "function": {"name": "f", "arguments": '{"a": 2}'}}]},
        {"role": "assistant", "tool_calls": [{**CALL, "function": {"name": "f", "arguments": "not JSON"}}]},
    ],
)
def test_what_a_template_reads_counts(other: dict[str, Any]) -> None:
    assert as_read(other) != as_read({"role": "assistant", "content": None, "tool_calls": [CALL]})
