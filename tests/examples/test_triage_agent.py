"""examples.triage.agent against a scripted OpenAI server: what it asks, when it asks again, what it writes down."""

from __future__ import annotations

import asyncio
import json
import random
from io import StringIO
from itertools import islice

import httpx
import pytest
from openai import AsyncOpenAI

from examples.triage.agent import Outbox, TriageAgent, Turn, endless, parse_arguments, work
from examples.triage.tickets import tickets

TICKET = tickets("train")[0]


class ScriptedServer:
    """Streams the given answers one after another, then fails with 500; keeps the request bodies."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.bodies: list[dict[str, object]] = []

    def handle(self, request: httpx.Request) -> httpx.Response:
        self.bodies.append(json.loads(request.content))
        if not self.answers:
            return httpx.Response(500, json={"error": {"message": "no more answers"}})
        answer, chunk_id = self.answers.pop(0), f"chatcmpl-{len(self.bodies)}"
        deltas = [{"role": "assistant", "content": ""}, *({"content": piece} for piece in answer), {}]
        chunks = [
            {"id": chunk_id, "object": "chat.completion.chunk", "created": 0, "model": "m",
             "choices": [{"index": 0, "delta": delta, "finish_reason": None if delta else "stop"}]}
            for delta in deltas
        ]  # fmt: skip
        lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks] + ["data: [DONE]\n\n"]
        return httpx.Response(200, text="".join(lines), headers={"content-type": "text/event-stream"})

    def agent(self, repair_share: float = 1.0) -> TriageAgent:
        transport = httpx.AsyncClient(transport=httpx.MockTransport(self.handle))
        client = AsyncOpenAI(base_url="http://test/v1", api_key="k", http_client=transport, max_retries=0)
        return TriageAgent(client, "m", max_tokens=16, repair_share=repair_share)


async def test_a_good_answer_takes_one_streamed_turn_at_temperature_one() -> None:
    server = ScriptedServer('{"order": 4821}')
    turns = await server.agent().answer(TICKET, random.Random(0))
    assert turns == [Turn(completion="chatcmpl-1", answer='{"order": 4821}')]
    body = server.bodies[0]
    assert (body["stream"], body["temperature"], body["top_p"], body["max_tokens"]) == (True, 1.0, 1.0, 16)


@pytest.mark.parametrize("bad", ["Sorry", '{"order": "4821"}'])
async def test_a_bad_answer_is_sent_back_once_in_the_same_conversation(bad: str) -> None:
    server = ScriptedServer(bad, "Still sorry")
    turns = await server.agent().answer(TICKET, random.Random(0))
    assert [turn.completion for turn in turns] == ["chatcmpl-1", "chatcmpl-2"]
    first, second = (body["messages"] for body in server.bodies)
    assert isinstance(first, list) and isinstance(second, list)
    assert second[:2] == first
    assert second[2] == {"role": "assistant", "content": bad}
    assert second[3]["role"] == "user"


async def test_no_repair_where_the_share_is_zero() -> None:
    assert len(await ScriptedServer("Sorry").agent(repair_share=0.0).answer(TICKET, random.Random(0))) == 1


async def test_a_failed_ticket_is_counted_and_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    async def no_pause(_: float) -> None: ...

    monkeypatch.setattr(asyncio, "sleep", no_pause)
    file = StringIO()
    agent = ScriptedServer('{"order": 4821}').agent()
    pool = tickets("train")[:2]
    num_failed = await work(agent, iter(pool), Outbox(file), random.Random(0), asyncio.Event())
    lines = [json.loads(line) for line in file.getvalue().splitlines()]
    assert num_failed == 1
    assert [(line["ticket"], line["turns"][0]["completion"]) for line in lines] == [(pool[0].id, "chatcmpl-1")]


def test_endless_tickets_show_all_before_any_twice() -> None:
    pool = tickets("train")[:5]
    drawn = list(islice(endless(pool, seed=1), 10))
    assert sorted(ticket.id for ticket in drawn[:5]) == sorted(ticket.id for ticket in pool)
    assert drawn[:5] != drawn[5:]


def test_arguments_without_a_key_are_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(SystemExit):
        parse_arguments(["--base-url", "http://x/v1", "--outbox", "o"])
    assert "OPENAI_API_KEY" in capsys.readouterr().err
