"""Pseudonyms with the real data proxy: the model sees surrogates, the agent its own values, and what is kept trains as it is."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from sqlalchemy import select

from dataproxy.capture import Journal
from dataproxy.client.types import Consent, NewKey
from dataproxy.keyfiles import KeyFiles
from dataproxy.redact import RedactionFailed, TokenBytes
from dataproxy.redact.policy import RedactionPolicy
from dataproxy.services import Services, TenantRedactors, build_services, policies_in
from dataproxy.settings import Settings as ProxySettings
from dataproxy.store.consents import add_consent
from dataproxy.store.database import Database
from dataproxy.store.keys import issue_key
from dataproxy.store.reading import list_events
from dataproxy.store.redaction import add_policy
from dataproxy.store.schema import eligibility, token_segment
from dataproxy.store.segments import token_records
from gateway.app import create_gateway
from gateway.dialects import CHAT, COMPLETIONS, MESSAGES, RESPONSES, Dialect
from gateway.polling import KeyPoller, WorkerPoller
from gateway.settings import Settings
from gateway.state import Gateway
from tests.dataproxy.api.served import serve
from tests.fakes.engine import FakeEngine
from tests.fakes.generation import VOCABULARY_OFFSET
from tests.gateway.conftest import serve_gateway

VALUES = ("ann.bo@acme-corp.io", "+1 (212) 867-5309", "4111-1111-1111-1111", "8.8.4.4")
TEXT = "Write to {} or call {}; card {}, host {}: thanks.".format(*VALUES)
pytestmark = pytest.mark.slow
TOKENS = TokenBytes([b"", b"", b"", *[b""] * (VOCABULARY_OFFSET - 3), *(bytes([n]) for n in range(256))], "bytes")
STREAMED = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


@dataclass
class Stack:
    """A gateway over a journal on disk, a fake engine and a data proxy on its socket."""

    url: str
    engine: FakeEngine
    services: Services
    journal: Journal
    gateway: Gateway
    keys: dict[str, str]
    run_dir: Path

    async def ask(self, dialect: Dialect, stream: bool, key: str = "wants", session: str = "s", **more: Any) -> httpx.Response:
        """One call that says TEXT."""
        bodies: dict[str, Any] = {
            "chat": {"messages": [{"role": "user", "content": TEXT}]},
            "completions": {"prompt": TEXT, "max_tokens": 500},
            "responses": {"input": TEXT},
            "messages": {"messages": [{"role": "user", "content": TEXT}], "max_tokens": 500},
        }
        headers = {"authorization": f"Bearer {self.keys[key]}", "x-headrace-session": session}
        body = {"model": "tiny", **bodies[dialect.name], "stream": stream, **more}
        async with httpx.AsyncClient(base_url=self.url, headers=headers, timeout=30) as client:
            return await client.post(dialect.path, json=body)

    def drained(self) -> list[Any]:
        """The model calls that are stored."""
        while self.services.drain.run_once():
            pass
        with self.services.database.read() as connection:
            return [event for _, event in list_events(connection, None, 50, 0, None, "model_call")]


@pytest.fixture
async def stack(run_dir: Path) -> AsyncIterator[Stack]:
    """Tenant acme wants pseudonyms, tenant plain does not."""
    files = KeyFiles(run_dir / "config")
    database = Database(run_dir / "store" / "headrace.db")
    redactors = TenantRedactors(files.tenant_secret(), 16, TOKENS, policies_in(database))
    settings = ProxySettings(data_dir=run_dir, config_dir=run_dir / "config")
    services = build_services(settings, files, redactors, database=database)
    keys = {}
    with database.write() as connection:
        for name, tenant in (("wants", "acme"), ("plain", "plain")):
            keys[name] = issue_key(connection, NewKey(tenant, "desk", "agent"), 1).key
            add_consent(connection, Consent(tenant, True, True, "a test", "", 1), "key-0")
        add_policy(connection, "acme", RedactionPolicy(pseudonymize=True), "asked for", "key-0", 1)
        services.keys.load(connection)
    journal = Journal.open(run_dir / "journal", files.journal_public())
    engine = FakeEngine()
    async with engine.serve() as engine_url:
        made = Settings(data_dir=run_dir, config_dir=run_dir / "config", engine_urls=(engine_url,))
        gateway = create_gateway(made, journal)
        with serve(services, run_dir / "run" / "dataproxy.sock"):
            async with serve_gateway(gateway) as url:
                await KeyPoller(gateway)()
                await WorkerPoller(gateway)()
                yield Stack(url, engine, services, journal, gateway, keys, run_dir)
    database.close()


def said(dialect: Dialect, answer: httpx.Response) -> str:
    """The text of an answer, whole or streamed."""
    if not answer.headers["content-type"].startswith("text/event-stream"):
        body = answer.json()
        return str(
            {
                "chat": lambda: body["choices"][0]["message"]["content"],
                "completions": lambda: body["choices"][0]["text"],
                "responses": lambda: body["output"][-1]["content"][0]["text"],
                "messages": lambda: body["content"][0]["text"],
            }[dialect.name]()
        )
    found = ""
    for part in answer.text.split("\n\n"):
        data = part.partition("data: ")[2]
        event = json.loads(data) if data.startswith("{") else {}
        if dialect in (CHAT, COMPLETIONS):
            for choice in event.get("choices", []):
                found += choice.get("text") or (choice.get("delta") or {}).get("content") or ""
        elif event.get("type") == "response.output_text.delta":
            found += event["delta"]
        elif event.get("type") == "content_block_delta":
            found += event["delta"].get("text", "")
    return found


@pytest.mark.parametrize(
    ("dialect", "stream"),
    [
        *((dialect, True) for dialect in (CHAT, COMPLETIONS, RESPONSES, MESSAGES)),
        (CHAT, False),
        (MESSAGES, False),
        (RESPONSES, False),
    ],
    ids=lambda given: given if isinstance(given, bool) else given.name,
)
async def test_the_model_sees_surrogates_and_the_agent_its_own_values(stack: Stack, dialect: Dialect, stream: bool) -> None:
    answer = await stack.ask(dialect, stream)
    assert answer.status_code == 200, answer.text
    assert said(dialect, answer) == TEXT
    (call,) = stack.engine.calls
    assert not any(value.encode() in call.body for value in VALUES) and b"@example." in call.body
    (event,) = stack.drained()
    assert event.m["pseudonyms"] >= 4 and not event.spans
    with stack.services.database.read() as connection:
        (record,) = token_records(connection, "acme", event.event_id)
        assert [row.reason for row in connection.execute(select(eligibility.c.reason))] == ["eligible"]
        assert connection.execute(select(token_segment.c.num_altered)).scalar_one() == 0
    assert not any(record.prompt_altered) and not any(record.output_altered)
    sampled = TOKENS.decode(np.frombuffer(record.output_ids, "<i4"))[0]
    assert sampled in b"".join(call.body for call in stack.engine.calls) and len(sampled) > 80
    at_rest = b"".join(path.read_bytes() for path in stack.run_dir.rglob("*") if path.is_file())
    assert not any(value.encode() in at_rest for value in VALUES)


async def test_the_next_turn_has_the_same_surrogates_and_goes_on_from_the_exact_tokens(stack: Stack) -> None:
    first = await stack.ask(CHAT, stream=False)
    turns = [{"role": "user", "content": TEXT}, {"role": "assistant", "content": said(CHAT, first)}]
    second = await stack.ask(CHAT, stream=True, messages=[*turns, {"role": "user", "content": f"again {VALUES[0]}"}])
    assert said(CHAT, second) == f"again {VALUES[0]}"
    before, after = (json.loads(call.body)["messages"] for call in stack.engine.calls)
    assert after[:1] == before and after[1]["content"] == before[0]["content"]
    other = await stack.ask(CHAT, stream=False, session="another")
    assert said(CHAT, other) == TEXT
    assert json.loads(stack.engine.calls[-1].body)["messages"] != before
    one, two, _ = stack.drained()
    assert one.trajectory_id == two.trajectory_id


@STREAMED
async def test_values_come_back_in_arguments_of_tools(stack: Stack, stream: bool) -> None:
    def reply(body: dict[str, Any]) -> str:
        address, number = (word.strip(",;.") for word in body["messages"][-1]["content"].split() if "@" in word or "-" in word[4:5])
        call = {"name": "send", "arguments": {"to": address, "note": f"line\n{number}"}}
        return f"<tool_call>\n{json.dumps(call)}\n</tool_call>"

    stack.engine.model.reply = reply
    tools = [{"type": "function", "function": {"name": "send", "parameters": {"type": "object", "properties": {}}}}]
    answer = await stack.ask(CHAT, stream, tools=tools)
    if stream:
        parts = [json.loads(part[6:]) for part in answer.text.split("\n\n") if part.startswith("data: {")]
        deltas = [call for part in parts for choice in part["choices"] for call in choice["delta"].get("tool_calls") or []]
        arguments = "".join(call["function"].get("arguments") or "" for call in deltas)
    else:
        arguments = answer.json()["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"]
    assert json.loads(arguments) == {"to": VALUES[0], "note": f"line\n{VALUES[2]}"}


async def test_a_tenant_that_does_not_ask_for_it_pays_nothing(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("asked")

    monkeypatch.setattr(stack.services.pseudonyms, "substitute", refuse)
    answer = await stack.ask(CHAT, stream=False, key="plain")
    assert answer.status_code == 200 and VALUES[0].encode() in stack.engine.calls[0].body


@pytest.mark.parametrize("dialect", [CHAT, MESSAGES], ids=lambda dialect: dialect.name)
async def test_what_cannot_be_replaced_reaches_no_model(stack: Stack, monkeypatch: pytest.MonkeyPatch, dialect: Dialect) -> None:
    def fail(*_: object) -> None:
        raise RedactionFailed("timeout")

    monkeypatch.setattr(stack.services.pseudonyms, "substitute", fail)
    answer = await stack.ask(dialect, stream=True)
    error = answer.json()
    assert answer.status_code == 503 and stack.engine.calls == [] and answer.headers["retry-after"]
    assert error.get("type") == "error" if dialect is MESSAGES else error["error"]["code"] == "pseudonyms_unavailable"
    assert not any(value in answer.text for value in VALUES)


async def test_answers_that_the_engine_keeps_are_not_gone_on_from(stack: Stack) -> None:
    refused = await stack.ask(RESPONSES, stream=False, previous_response_id="resp_x")
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "pseudonyms_need_input")
    assert stack.engine.calls == []
