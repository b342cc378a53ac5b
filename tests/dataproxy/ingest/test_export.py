"""Exports read back by those that they are for: ATDP's schema, pyarrow, ATIF's models, chat templates, OTLP's messages."""

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import jsonschema
import pyarrow.json
import pyarrow.parquet
import pytest
from atif import Trajectory
from google.protobuf import json_format
from jinja2.sandbox import ImmutableSandboxedEnvironment
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from sqlalchemy import select

from atdp.codec import decode_event
from atdp.exports.chat import for_template
from atdp.reward_events import late_rewards
from atdp.rewards import effective_reward
from atdp.schema import event_schema
from dataproxy.client import Denied, ExportQuery, SyncDataProxyClient
from dataproxy.client.types import Feedback
from dataproxy.store.schema import access_log
from deploy.exports.write import OF_EVENTS, OF_TRAJECTORIES
from tests.dataproxy.api.served import serve
from tests.dataproxy.exchanges import exchange, user, write
from tests.dataproxy.proxy import SECRET_ID, SECRET_WORD, Proxy

pytestmark = pytest.mark.slow
TEMPLATES = sorted((Path(__file__).parents[2] / "templates").glob("*.jinja"))
TOOLS = [{"type": "function", "function": {"name": "lookup", "description": "d", "parameters": {"type": "object"}}}]
CALL = {"id": "call0001a", "type": "function", "function": {"name": "lookup", "arguments": '{"order": "A-7"}'}}


@pytest.fixture
async def client(proxy: Proxy, tmp_path: Path) -> Any:
    """A reviewer's client of a store with a rewarded conversation of two calls and a tool, and a plain one of another session."""
    asks = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    begun = [{"role": "system", "content": "be brief"}, user(f"order of {SECRET_WORD}?")]
    went_on = [*begun, asks, {"role": "tool", "tool_call_id": "call0001a", "content": "shipped"}]
    answers = [{**asks, "reasoning_content": "look it up"}]
    first = exchange(begun, answers=answers, prompt=[1, SECRET_ID], outputs=[[7, 8]], tools=TOOLS, session="s1", started_us=10)
    second = exchange(went_on, "it has shipped", prompt=[1, 2, 7, 8, 5], outputs=[[9]], tools=TOOLS, session="s1", started_us=20)
    other = exchange([user("hello")], "hi", session="s2", started_us=30)
    journal = proxy.journal()
    await write(journal, first, second, other)
    journal.close()
    proxy.drain()
    with serve(proxy.services, tmp_path / "api.sock") as path:
        with SyncDataProxyClient(path, proxy.key("agent")) as agent:
            agent.feedback(Feedback(target=second[0].completion_id, value=1.0))
        with SyncDataProxyClient(path, proxy.key("reviewer")) as reviewer:
            yield reviewer


def exported(client: SyncDataProxyClient, name: str, out: Path, **query: Any) -> int:
    if name in OF_EVENTS:
        with client.export_events(ExportQuery(**query)) as events:
            return OF_EVENTS[name](out, events.items)
    with client.export_trajectories(ExportQuery(**query)) as found:
        return OF_TRAJECTORIES[name](out, found.items)


def lines(path: Path) -> list[Any]:
    assert path.stat().st_mode & 0o077 == 0
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_jsonl_holds_events_of_the_protocol_with_their_exact_tokens(client: SyncDataProxyClient, tmp_path: Path) -> None:
    out = tmp_path / "events.jsonl"
    assert exported(client, "jsonl", out, session="s1") == len(lines(out)) == 4
    validator = jsonschema.Draft202012Validator(event_schema())
    for body in lines(out):
        validator.validate(body)
        assert decode_event(json.dumps(body).encode()).event_id == body["event_id"]
    calls = [body for body in lines(out) if body["kind"] == "model_call"]
    assert calls[0]["a"]["tokens"][0]["output_ids"] == "BwAAAAgAAAA=" and calls[0]["m"]["training"] == {"0": "altered"}
    assert SECRET_WORD not in out.read_text()


def test_the_effect_of_rewards_that_came_late_is_found_in_the_events_alone(client: SyncDataProxyClient, tmp_path: Path) -> None:
    out = tmp_path / "events.jsonl"
    exported(client, "jsonl", out)
    events = [decode_event(line) for line in out.read_bytes().splitlines()]
    rewards = [reward for one in events for reward in late_rewards(one)]
    (rewarded,) = {one.trajectory_id for one in events if one.kind == "reward"}
    with client.export_trajectories(ExportQuery()) as found:
        by_trajectory = {one.trajectory_id: one for one in found.items}
    assert effective_reward(rewards) == by_trajectory[rewarded].reward == 1.0
    assert [(r.reward_id, r.target_id, r.value) for r in rewards] == [
        (r.reward_id, r.target_id, r.value) for r in by_trajectory[rewarded].rewards
    ]
    assert exported(client, "jsonl", tmp_path / "alone.jsonl", kind="reward", session="s1") == 1
    assert exported(client, "jsonl", tmp_path / "none.jsonl", kind="reward", session="s2") == 0


def test_parquet_is_read_by_pyarrow_with_arrays_of_their_types(client: SyncDataProxyClient, tmp_path: Path) -> None:
    out = tmp_path / "events.parquet"
    num = exported(client, "parquet", out, kind="model_call")
    table = pyarrow.parquet.read_table(out)
    assert table.num_rows == num == 3
    row = table.to_pylist()[0]
    assert (row["tokens"][0]["prompt_ids"], row["tokens"][0]["output_ids"], row["tokens"][0]["logprobs"]) == (
        [1, 16],
        [7, 8],
        [-0.5, -0.5],
    )
    assert row["tokens"][0]["prompt_altered"] == [0, 1] and row["training"][0]["decision"] == "altered"
    assert json.loads(row["o"])["messages"][0] == {"role": "system", "content": "be brief"}
    assert str(table.schema.field("started_at").type) == "int64"
    assert "int32" in str(table.schema.field("tokens").type) and "float" in str(table.schema.field("tokens").type)


def test_an_empty_export_is_a_file_without_rows(client: SyncDataProxyClient, tmp_path: Path) -> None:
    assert exported(client, "parquet", tmp_path / "e.parquet", kind="browser") == 0
    assert pyarrow.parquet.read_table(tmp_path / "e.parquet").num_rows == 0
    assert exported(client, "jsonl", tmp_path / "e.jsonl", agent="nobody") == 0


def test_atif_holds_each_message_once_and_is_valid(client: SyncDataProxyClient, tmp_path: Path) -> None:
    out = tmp_path / "t.jsonl"
    assert exported(client, "atif", out) == 2
    bodies = lines(out)
    for body in bodies:
        Trajectory.model_validate(body)
    (body,) = [one for one in bodies if one["session_id"] == "s1"]
    assert [step["source"] for step in body["steps"]] == ["system", "user", "agent", "agent"]
    asking, last = body["steps"][2:]
    assert asking["tool_calls"] == [{"tool_call_id": "call0001a", "function_name": "lookup", "arguments": {"order": "A-7"}}]
    assert asking["observation"] == {"results": [{"source_call_id": "call0001a", "content": "shipped"}]}
    assert asking["reasoning_content"] == "look it up" and asking["metrics"]["completion_token_ids"] == [7, 8]
    assert last["message"] == "it has shipped" and last["metrics"]["logprobs"] == [-0.5]
    assert body["schema_version"] == "ATIF-v1.8" and body["extra"]["reward"] == 1.0 and body["extra"]["atdp"]["num_branches"] == 0
    assert body["agent"]["tool_definitions"] == TOOLS


def test_atif_into_a_directory_is_a_file_a_trajectory(client: SyncDataProxyClient, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    assert exported(client, "atif", tmp_path / "out") == 2
    for path in (tmp_path / "out").iterdir():
        assert Trajectory.model_validate_json(path.read_bytes()).trajectory_id == path.stem


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
def test_chat_rows_are_taken_by_chat_templates(client: SyncDataProxyClient, tmp_path: Path, path: Path) -> None:
    out = tmp_path / "chat.jsonl"
    assert exported(client, "chat", out) == 2
    rows = {row["session_id"]: row for row in lines(out)}
    assert rows["s1"]["reward"] == 1.0 and rows["s2"]["reward"] is None
    assert [message["role"] for message in rows["s1"]["messages"]] == ["system", "user", "assistant", "tool", "assistant"]
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
    environment.globals["raise_exception"] = _fail
    environment.globals["strftime_now"] = lambda form: datetime(2026, 1, 1).strftime(form)
    environment.filters["tojson"] = lambda value, **options: json.dumps(value, ensure_ascii=False, **options)
    template = environment.from_string(path.read_text())
    for row in rows.values():
        text = template.render(**for_template(row), bos_token="<s>", eos_token="</s>")
        assert row["messages"][-1]["content"] in text


async def test_chat_rows_agree_in_type_whatever_the_tools_take(proxy: Proxy, tmp_path: Path) -> None:
    given = [{"order": "A-7"}, {"order": 7}, {"order": ["A-7", 7]}, {"city": {"name": "Wien"}}, {}]
    schemas = [[{"type": "function", "function": {"name": "f", "parameters": one}}] for one in given]
    journal = proxy.journal()
    for at, (arguments, tools) in enumerate(zip(given, [*schemas[:-1], None], strict=True)):
        call = {**CALL, "function": {"name": "f", "arguments": json.dumps(arguments)}}
        asks = {"role": "assistant", "content": None, "tool_calls": [call]}
        more = {"tools": tools} if tools else {}
        await write(journal, exchange([user("do it")], answers=[asks], session=f"s{at}", started_us=at, **more))
    journal.close()
    proxy.drain()
    out = tmp_path / "chat.jsonl"
    with serve(proxy.services, tmp_path / "api.sock") as path, SyncDataProxyClient(path, proxy.key("reviewer")) as client:
        assert exported(client, "chat", out) == len(given)
    read = pyarrow.json.read_json(out).to_pylist()  # as `datasets` does
    rows = {row["session_id"]: for_template(row) for row in read}
    for at, arguments in enumerate(given):
        asked, said = rows[f"s{at}"]["messages"]
        assert asked == {"role": "user", "content": "do it"}
        assert said["tool_calls"][0]["function"] == {"name": "f", "arguments": arguments}
        assert rows[f"s{at}"]["tools"] == (schemas[at] if arguments else None)


def _fail(message: str) -> None:
    raise AssertionError(message)


def test_otlp_is_what_the_protocols_own_messages_read(client: SyncDataProxyClient, tmp_path: Path) -> None:
    out = tmp_path / "spans.jsonl"
    assert exported(client, "otlp", out) >= 4
    spans = {}
    for body in lines(out):
        request = json_format.ParseDict(body, ExportTraceServiceRequest())
        spans |= {attributes(span)["atdp.event_id"]: span for one in request.resource_spans for span in one.scope_spans[0].spans}
    by_kind = {attributes(span)["atdp.kind"]: span for span in spans.values()}
    tool, (first, *_) = by_kind["tool_call"], [span for span in spans.values() if attributes(span)["atdp.kind"] == "model_call"]
    assert attributes(tool)["gen_ai.tool.call.result"] == "shipped" and tool.name == "execute_tool lookup"
    assert tool.parent_span_id == first.span_id and tool.trace_id == first.trace_id
    said_in = json.loads(attributes(first)["gen_ai.input.messages"])
    assert said_in[0] == {"role": "system", "parts": [{"type": "text", "content": "be brief"}]}
    assert json.loads(attributes(first)["gen_ai.output.messages"])[0]["parts"][-1]["arguments"] == {"order": "A-7"}
    assert attributes(first)["gen_ai.conversation.id"] == "s1" and "atdp.tokens" in attributes(first)


def attributes(span: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in span.attributes}


def test_an_export_is_on_record_before_it_begins_and_stays_in_its_tenant(
    client: SyncDataProxyClient, proxy: Proxy, tmp_path: Path
) -> None:
    with client.export_events(ExportQuery(session="s1")) as events:
        (row,) = proxy.rows(select(access_log))
        assert (row.tenant, row.role, row.what, row.target) == ("acme", "reviewer", "export of events", "session=s1")
        assert len(list(events.items)) == events.num == 4
    with serve(proxy.services, tmp_path / "second.sock") as path:
        for key in (proxy.key("reviewer", "other"), proxy.key("agent", agent="another")):
            with SyncDataProxyClient(path, key) as stranger, stranger.export_trajectories(ExportQuery()) as found:
                assert list(found.items) == []
        with (
            SyncDataProxyClient(path, proxy.key("trainer")) as trainer,
            pytest.raises(Denied),
            trainer.export_events(ExportQuery()),
        ):
            pass


async def test_many_pages_come_whole_and_in_order(proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dataproxy.store.exporting._PAGE", 3)
    journal = proxy.journal()
    await write(journal, *(exchange([user(str(n))], "ok", session=f"s{n}", started_us=n // 4) for n in range(10)))
    journal.close()
    proxy.drain()
    with serve(proxy.services, tmp_path / "api.sock") as path, SyncDataProxyClient(path, proxy.key("reviewer")) as client:
        with client.export_events(ExportQuery(kind="model_call", since_us=1, until_us=2)) as events:
            assert sorted(item.event.session_id for item in events.items) == ["s4", "s5", "s6", "s7"]
        with client.export_trajectories(ExportQuery()) as found:
            assert {item.session_id for item in found.items} == {f"s{n}" for n in range(10)} and found.num == 10


def test_a_broken_export_leaves_no_file(tmp_path: Path) -> None:
    def broken() -> Iterator[Any]:
        raise KeyError("lost")
        yield

    for name, write_to in OF_EVENTS.items():
        with pytest.raises(KeyError):
            write_to(tmp_path / name, broken())
    assert list(tmp_path.iterdir()) == []
