"""Exchanges with MCP servers out of the journal: events of tool calls and resource reads, redacted, in their session or alone."""

from typing import Any

import msgspec
from sqlalchemy import select

from dataproxy.capture import RequestHalf, ResponseHalf
from dataproxy.store.reading import find_event
from dataproxy.store.schema import eligibility, event, key_usage, quarantine, trajectory
from tests.dataproxy.exchanges import event_id, exchange, user, write
from tests.dataproxy.proxy import BROKEN_WORD, SECRET_WORD, Proxy


def mcp(method: str, params: Any, answer: dict[str, Any] | None, *, session: str = "", **of_answer: Any) -> Any:
    """One exchange; ``answer`` is the result or error of the reply."""
    this = event_id()
    asked = RequestHalf(
        event_id=this, completion_id="", tenant="acme", agent="triage", key_id="key-1", session_id=session,
        session_source="header" if session else "inferred", dialect="mcp", path="/mcp/orders", model="orders",
        body=msgspec.json.encode({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}), headers={}, started_us=1_000_000,
    )  # fmt: skip
    fields: dict[str, Any] = {"status": 200, "delivery": "complete", "error": ""} | of_answer
    body = msgspec.json.encode({"jsonrpc": "2.0", "id": 1, **answer}) if answer is not None else b""
    got = ResponseHalf(
        event_id=this, body=body, record=b"", stream=False, worker="orders", first_byte_us=0, ended_us=1_500_000, **fields
    )  # fmt: skip
    return asked, got


async def drained(proxy: Proxy, *pairs: Any) -> None:
    journal = proxy.journal()
    await write(journal, *pairs)
    journal.close()
    proxy.drain()


def found(proxy: Proxy, pair: Any) -> Any:
    with proxy.services.database.read() as connection:
        return find_event(connection, "acme", pair[0].event_id)


async def test_a_tool_call_becomes_an_event_redacted_that_never_trains_and_costs_no_tokens(proxy: Proxy) -> None:
    text = {"type": "text", "text": f"the code is {SECRET_WORD}"}
    image = {"type": "image", "data": "aGVsbG8gd29ybGQ=" * 4, "mimeType": "image/png"}
    params = {"name": "status", "arguments": {"order": SECRET_WORD}, "_meta": {"progressToken": 1}}
    pair = mcp("tools/call", params, {"result": {"content": [text, image], "isError": False}})
    await drained(proxy, pair)
    made = found(proxy, pair)
    assert (made.kind, made.boundary, made.session_id, made.trajectory_id) == ("tool_call", "mcp", "", "")
    assert made.a == {"method": "tools/call", "name": "status", "arguments": {"order": "<PASSWORD_1>"}}
    assert made.y["result"]["content"][0]["text"] == "the code is <PASSWORD_1>" and made.y["is_error"] is False
    assert made.y["result"]["content"][1]["data"].startswith("digest=")
    assert made.m["server"] == "orders" and made.m["latency_us"] == {"total": 500_000}
    assert SECRET_WORD.encode() not in proxy.everything_at_rest()
    assert proxy.count(eligibility) == proxy.count(key_usage) == proxy.count(trajectory) == 0


async def test_what_failed_is_an_error(proxy: Proxy) -> None:
    cases: list[tuple[Any, str, str | None]] = [
        (mcp("tools/call", {"name": "x"}, {"result": {"content": [], "isError": True}}), "tool_call", None),
        (mcp("resources/read", {"uri": "a://b"}, {"error": {"code": -32002, "message": "none"}}), "retrieval", "jsonrpc -32002"),
        (mcp("prompts/get", {"name": "p"}, {"error": {"code": -32602, "message": "no"}}), "mcp", "jsonrpc -32602"),
        (mcp("tools/call", {"name": "x"}, None, status=0, delivery="disconnected"), "tool_call", "disconnected"),
        (mcp("tools/call", {"name": "x"}, None, status=401, delivery="upstream_error", error="refused"), "tool_call", "refused"),
    ]  # fmt: skip
    await drained(proxy, *(pair for pair, _, _ in cases))
    for pair, kind, error in cases:
        made = found(proxy, pair)
        assert made.kind == kind and made.y["is_error"] is True
        assert made.y.get("error", {}).get("type") == error


async def test_a_resource_is_a_retrieval_and_joins_the_session_that_the_agent_named(proxy: Proxy) -> None:
    first, last = exchange([user("hi")], session="s1"), exchange([user("hello")], session="s1", started_us=2_000_000)
    pair = mcp("resources/read", {"uri": "a://b"}, {"result": {"contents": [{"uri": "a://b", "text": "t"}]}}, session="s1")
    opened = mcp("tools/call", {"name": "x"}, {"result": {}}, session="s2")
    named = mcp("tools/call", {"name": "x"}, {"result": {}}, session=f"of {SECRET_WORD}")
    await drained(proxy, first, pair, last, opened, named)
    rows = {row.event_id: row for row in proxy.rows(select(event))}
    of_s1 = [rows[one[0].event_id] for one in (first, pair, last)]
    assert len({row.trajectory_id for row in of_s1}) == 1 and {row.session_id for row in of_s1} == {"s1"}
    assert sorted(row.seq for row in of_s1) == [0, 1, 2]
    assert rows[opened[0].event_id].trajectory_id and rows[named[0].event_id].session_id.startswith("digest-")
    assert SECRET_WORD.encode() not in proxy.everything_at_rest()


async def test_what_cannot_be_redacted_goes_to_the_quarantine_and_an_unanswered_call_is_incomplete(proxy: Proxy) -> None:
    broken = mcp("tools/call", {"name": BROKEN_WORD}, {"result": {}})
    journal = proxy.journal()
    await write(journal, broken)
    asked, _ = mcp("tools/call", {"name": "x"}, None)
    journal.begin(asked)
    journal.close()
    again = proxy.journal()  # the segment of a gateway that is gone: its open exchanges are closed
    proxy.drain()
    again.close()
    assert [row.reason for row in proxy.rows(select(quarantine))] == ["redaction_not_located"]
    made = found(proxy, (asked, None))
    assert made is not None and made.y == {"delivery": "incomplete", "is_error": True, "error": {"type": "incomplete"}}
