"""Spans become events by the mapping, in both encodings of OTLP; evaluations become rewards. Real ones: test_instrumentations."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from sqlalchemy import select

from atdp.events import Event
from atdp.exports.otlp import trace_request
from atdp.exports.types import ExportedEvent
from dataproxy.ingest.otel.bodies import body_of
from dataproxy.ingest.otel.spans import OtelSpan, SpanEvent
from dataproxy.ingest.otel.wire import read_spans
from dataproxy.store.reading import list_events
from dataproxy.store.schema import event, reward
from tests.dataproxy.api.served import serve
from tests.dataproxy.exchanges import exchange, user, write
from tests.dataproxy.proxy import Proxy

TOOLS: list[Any] = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]


def post(path: Path, key: str, body: bytes, content_type: str, **headers: str) -> httpx.Response:
    with httpx.Client(transport=httpx.HTTPTransport(uds=str(path)), base_url="http://x", timeout=60) as http:
        return http.post(
            "/v1/traces", content=body, headers={"authorization": f"Bearer {key}", "content-type": content_type, **headers}
        )


def stored(proxy: Proxy) -> list[Event]:
    with proxy.services.database.read() as connection:
        return [one for _, one in list_events(connection, "acme", 100, 0, None, None)]


@pytest.fixture
def socket_path(proxy: Proxy, tmp_path: Path) -> Iterator[Path]:
    with serve(proxy.services, tmp_path / "api.sock") as path:
        yield path


def attribute(name: str, value: Any) -> dict[str, Any]:
    kind = {str: "stringValue", bool: "boolValue", float: "doubleValue"}.get(type(value), "intValue")
    return {"key": name, "value": {kind: value}}


def json_body(*spans: dict[str, Any], **attributes: Any) -> bytes:
    resource = {"attributes": [attribute("service.name", "desk")]}
    made = []
    for number, span in enumerate(spans or ({},)):
        given = [attribute(name, value) for name, value in {**attributes, **span.get("attributes", {})}.items()]
        ids = {"traceId": "0A" * 16, "spanId": f"{number:016x}"}
        times = {"startTimeUnixNano": "1000000000", "endTimeUnixNano": 2000000000}
        made.append({**ids, "name": "chat", **times, "futureField": 1, **span, "attributes": given})
    scope = {"name": "lib", "version": "1"}
    return json.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": scope, "spans": made}]}]}).encode()


CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}


def test_json_with_hex_ids_is_read_and_answered_in_json_and_spans_of_no_genai_are_said_not_to_be_kept(
    proxy: Proxy, socket_path: Path
) -> None:
    body = json_body(
        {"attributes": CHAT}, {"attributes": {"http.method": "GET"}}, {"attributes": {**CHAT, "gen_ai.tool.name": "t"}}
    )
    answer = post(socket_path, proxy.key("agent"), body, "application/json; charset=utf-8")
    assert answer.json() == {
        "partialSuccess": {"rejectedSpans": "0", "errorMessage": "1 spans are none of GenAI and were not kept"}
    }
    assert [one.event_id for one in stored(proxy)] == [f"otel-{'0a' * 16}-{n:016x}" for n in (0, 2)]
    assert stored(proxy)[0].m["otel"]["service"] == "desk" and stored(proxy)[0].m["otel"]["scope"] == "lib 1"


NO_OTLP = [
    (b"\xff\xff", "application/x-protobuf"),
    (b"{", "application/json"),
    (b"[]", "application/json"),
    (b'{"resourceSpans":[{"scopeSpans":[{"spans":[{}]}]}]}', "application/json"),
    (json_body({"traceId": "zz"}), "application/json"),
    (b"", "text/plain"),
]


@pytest.mark.slow
def test_what_is_no_otlp_is_400(proxy: Proxy, socket_path: Path) -> None:
    key = proxy.key("agent")
    for body, content_type in NO_OTLP:
        assert post(socket_path, key, body, content_type).status_code == 400
    assert proxy.count(event) == 0


def test_a_refused_span_is_counted_and_harms_no_other(proxy: Proxy, socket_path: Path) -> None:
    body = json_body({"attributes": CHAT}, {"attributes": {**CHAT, "big": "x" * 10, "session.id": "a\nb"}})
    answer = post(socket_path, proxy.key("agent"), body, "application/json").json()
    assert answer["partialSuccess"]["rejectedSpans"] == "1" and "session_id" in answer["partialSuccess"]["errorMessage"]
    assert len(stored(proxy)) == 1


async def test_an_instrumented_agent_behind_the_gateway_gives_one_trajectory_and_its_evaluations_are_rewards(
    proxy: Proxy, socket_path: Path
) -> None:
    journal = proxy.journal()
    asked, got = exchange([user("hi")], "hello", prompt=[1], outputs=[[2]], session="s1")
    await write(journal, (asked, got))
    journal.close()
    proxy.drain()
    scored = {
        "name": "gen_ai.evaluation.result",
        "attributes": [attribute("gen_ai.evaluation.name", "tone"), attribute("gen_ai.evaluation.score.value", 0.5)],
    }
    span = {"attributes": {**CHAT, "gen_ai.response.id": asked.completion_id}, "events": [scored]}
    forged = {"attributes": {**CHAT, "gen_ai.response.id": f"chatcmpl-{'0' * 48}"}, "events": [scored]}
    for _ in range(2):
        answer = post(socket_path, proxy.key("agent"), json_body(span, forged), "application/json").json()
        assert "no such completion" in answer["partialSuccess"]["errorMessage"]
    seen = {one.event_id: one for one in stored(proxy)}
    ours, mirrored = seen[asked.event_id], seen[f"otel-{'0a' * 16}-{0:016x}"]
    assert (mirrored.parent_id, mirrored.m["same_as"], mirrored.trajectory_id) == (ours.event_id, ours.event_id, ours.trajectory_id)
    assert mirrored.r == [{"name": "tone", "value": 0.5}]
    (row,) = proxy.rows(select(reward))
    assert (row.target_id, row.name, row.value, row.source) == (asked.event_id, "tone", 0.5, "judge")


def span(attributes: dict[str, Any], *events: SpanEvent) -> OtelSpan:
    return OtelSpan("0a" * 16, "0b" * 8, "0c" * 8, "n", 1000, 2000, attributes, list(events))


PARTS = [
    {"role": "user", "parts": [{"type": "text", "content": "hi"}, {"type": "blob", "modality": "image"}]},
    {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": {"n": 1}}]},
]
SAID = [
    {
        "role": "assistant",
        "parts": [{"type": "reasoning", "content": "hm"}, {"type": "text", "content": "ok"}],
        "finish_reason": "stop",
    }
]


@pytest.mark.parametrize(
    ("given", "kind", "wanted"),
    [
        (
            {**CHAT, "gen_ai.input.messages": json.dumps(PARTS), "gen_ai.output.messages": json.dumps(SAID),
             "gen_ai.system_instructions": '[{"type":"text","content":"be brief"}]', "gen_ai.conversation.id": "s9", "x.new": 1},
            "model_call",
            {"o": {"messages": [{"role": "system", "content": "be brief"},
                                {"role": "user", "content": [{"type": "text", "text": "hi"}, PARTS[0]["parts"][1]]},
                                {"role": "tool", "tool_call_id": "c1", "content": '{"n":1}'}]},
             "h": {"reasoning": ["hm"]}, "a": {"messages": [{"role": "assistant", "content": "ok"}]},
             "y": {"finish_reasons": ["stop"]}},
        ),
        (
            {"gen_ai.system": "openai", "llm.request.type": "chat", "gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": "hi",
             "gen_ai.completion.0.role": "assistant", "gen_ai.completion.0.content": "ok",
             "gen_ai.completion.0.finish_reason": "tool_call",
             "gen_ai.completion.0.tool_calls.0.id": "c", "gen_ai.completion.0.tool_calls.0.name": "f",
             "gen_ai.completion.0.tool_calls.0.arguments": "{}", "gen_ai.usage.prompt_tokens": 3},
            "model_call",
            {"o": {"messages": [{"role": "user", "content": "hi"}]}, "y": {"finish_reasons": ["tool_calls"]},
             "a": {"messages": [{"role": "assistant", "content": "ok",
                                 "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}]}},
        ),
        (
            {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "f", "gen_ai.tool.call.id": "c",
             "gen_ai.tool.call.arguments": '{"a":1}', "gen_ai.tool.call.result": "42", "error.type": "timeout"},
            "tool_call",
            {"a": {"name": "f", "call_id": "c", "arguments": {"a": 1}},
             "y": {"result": 42, "is_error": True, "error": {"type": "timeout", "message": ""}}},
        ),
        (
            {"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.query.text": "q", "gen_ai.retrieval.documents": '[{"id":1}]'},
            "retrieval", {"a": {"query": "q"}, "o": {"documents": [{"id": 1}]}},
        ),
        ({"gen_ai.operation.name": "invoke_agent"}, "lifecycle", {}),
        (
            {"openinference.span.kind": "TOOL", "tool.name": "f", "tool.parameters": '{"a":1}', "output.value": "42"},
            "tool_call", {"a": {"name": "f", "arguments": {"a": 1}}, "y": {"result": 42}},
        ),
        (
            {"openinference.span.kind": "RETRIEVER", "input.value": "q", "retrieval.documents.0.document.content": "d",
             "retrieval.documents.0.document.score": 0.5},
            "retrieval", {"a": {"query": "q"}, "y": {"documents": [{"content": "d", "score": 0.5}]}},
        ),
        (
            {"openinference.span.kind": "LLM", "llm.model_name": "m", "llm.input_messages.0.message.role": "user",
             "llm.input_messages.0.message.contents.0.message_content.type": "text",
             "llm.input_messages.0.message.contents.0.message_content.text": "hi", "output.value": "ok", "session.id": "s9"},
            "model_call",
            {"o": {"messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]},
             "a": {"messages": [{"role": "assistant", "content": "ok"}]}},
        ),
    ],
)  # fmt: skip
def test_attributes_go_where_the_mapping_says(given: dict[str, Any], kind: str, wanted: dict[str, Any]) -> None:
    body = body_of(span(given))
    assert body is not None and body["kind"] == kind
    for part, value in wanted.items():
        assert body[part] == value, part
    assert body["session_id"] == ("s9" if "s9" in given.values() else f"trace-{'0a' * 16}")
    assert body["parent_id"] == f"otel-{'0a' * 16}-{'0c' * 8}"
    assert body["m"].get("attributes", {}).get("x.new") == given.get("x.new")


def test_span_events_of_older_conventions_are_read() -> None:
    asked = SpanEvent("gen_ai.user.message", {"content": "hi"})
    said = SpanEvent("gen_ai.choice", {"message": '{"role":"assistant","content":"ok"}', "finish_reason": "stop"})
    body = body_of(span({"gen_ai.system": "openai", "gen_ai.request.model": "m"}, asked, said))
    assert body is not None
    assert (body["o"]["messages"], body["a"]["messages"]) == ([user("hi")], [{"role": "assistant", "content": "ok"}])
    assert body["m"]["provider"] == "openai"


def test_an_exported_event_comes_back_the_same() -> None:
    """OTLP out, OTLP in: messages, tools, outcome and usage are what they were."""
    calls = [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}]
    made = Event(
        event_id="0" * 32, tenant="acme", agent="desk", kind="model_call", started_at=5, ended_at=9, boundary="gateway",
        session_id="s1",
        o={"messages": [user("hi"), {"role": "tool", "tool_call_id": "c0", "content": "42"}], "tools": TOOLS},
        h={"reasoning": ["hm"]}, a={"messages": [{"role": "assistant", "content": "ok", "tool_calls": calls}]},
        y={"finish_reasons": ["tool_calls"]}, m={"model": "tiny", "usage": {"prompt_tokens": 3, "completion_tokens": 2}},
    )  # fmt: skip
    (again,) = read_spans(msgspec.json.encode(trace_request([ExportedEvent(made)])), "application/json")
    body = body_of(again)
    assert body is not None
    assert {name: body[name] for name in ("kind", "o", "h", "a", "y", "started_at", "ended_at", "session_id")} == {
        name: getattr(made, name) for name in ("kind", "o", "h", "a", "y", "started_at", "ended_at", "session_id")
    }
    assert body["m"]["usage"] == made.m["usage"]
