"""The whole way of an external model: an unmodified SDK, the gateway, ``python -m gateway.external``, a provider, and the drain."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anthropic
import httpx
import openai
import pytest
from sqlalchemy import select

from dataproxy.store.reading import find_event
from dataproxy.store.schema import eligibility
from gateway.polling import WorkerPoller
from tests.dataproxy.exchanges import write
from tests.dataproxy.proxy import Clock, Proxy
from tests.fakes.engine import FakeEngine
from tests.fakes.providers import Providers
from tests.fakes.serving import serve
from tests.gateway.conftest import Served, run_gateway
from tests.gateway.test_process import free_port

MODELS = """
[[models]]
name = "judge"
litellm_model = "openai/gpt-4o-mini"
api_base = "{url}/v1"
api_key_env = "SCRIPTED_KEY"

[[models]]
name = "claude"
litellm_model = "anthropic/claude-sonnet-4-5"
api_base = "{url}"
api_key_env = "SCRIPTED_KEY"

[[models]]
name = "busy"
litellm_model = "openai/fail-429"
api_base = "{url}/v1"

[[models]]
name = "broken"
litellm_model = "anthropic/fail-500"
api_base = "{url}"
"""
TURNS: Any = [{"role": "user", "content": "hi"}]


@asynccontextmanager
async def external_process(directory: Path, provider_url: str) -> AsyncIterator[str]:
    """The process itself, ready; gives its URL."""
    (directory / "external.toml").write_text(MODELS.format(url=provider_url))
    port = free_port()
    settings = {"HEADRACE_EXTERNAL_CONFIG_DIR": str(directory), "HEADRACE_EXTERNAL_PORT": str(port), "SCRIPTED_KEY": "key-1"}
    with (directory / "external.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "gateway.external", env=os.environ | settings, stderr=log
        )
    url = f"http://127.0.0.1:{port}"
    try:
        async with httpx.AsyncClient(base_url=url, trust_env=False) as client, asyncio.timeout(120):
            while not await _is_ready(client):
                assert process.returncode is None, (directory / "external.log").read_text()
                await asyncio.sleep(0.05)
        yield url
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def _is_ready(client: httpx.AsyncClient) -> bool:
    try:
        return (await client.get("/ready")).status_code == httpx.codes.OK
    except httpx.TransportError:
        return False


@asynccontextmanager
async def whole_way(run_dir: Path) -> AsyncIterator[tuple[Served, Providers]]:
    """A gateway with a worker of our own and the process of external models behind it."""
    engine, providers = FakeEngine(), Providers()
    async with (
        serve(providers, lifespan="off") as provider_url,
        external_process(run_dir, provider_url) as external_url,
        engine.serve() as engine_url,
        run_gateway(run_dir, engine, [engine_url, external_url]) as served,
    ):
        await WorkerPoller(served.gateway)()
        yield served, providers


async def test_sdks_reach_external_models_and_every_call_is_recorded_priced_and_never_trainable(
    run_dir: Path, tmp_path: Path
) -> None:
    async with whole_way(run_dir) as (served, providers):
        client = openai.AsyncOpenAI(base_url=f"{served.url}/v1", api_key="hr_acme", max_retries=0)
        assert {"tiny", "judge", "claude"} <= {model.id async for model in client.models.list()}

        whole = await client.chat.completions.create(model="judge", messages=TURNS)
        assert whole.choices[0].message.content == "echo hi" and whole.id.startswith("chatcmpl-")
        stream = await client.chat.completions.create(model="claude", messages=TURNS, stream=True)
        pieces = [chunk async for chunk in stream]
        assert "".join(chunk.choices[0].delta.content or "" for chunk in pieces) == "echo hi"
        response = await client.responses.create(model="judge", input="hi")
        assert response.output_text == "echo hi" and response.id.startswith("resp_")
        again = await client.responses.create(model="judge", input="on", previous_response_id=response.id)
        assert again.output_text == "echo on" and providers.seen[-1][1]["previous_response_id"] == "resp_p"
        text = await client.completions.create(model="judge", prompt="hi")
        assert text.choices[0].text == "echo hi" and text.id.startswith("cmpl-")
        vectors = await client.embeddings.create(model="judge", input="x", encoding_format="float")
        assert vectors.data[0].embedding == [0.5, -0.5]

        with pytest.raises(openai.RateLimitError) as limited:
            await client.chat.completions.create(model="busy", messages=TURNS)
        assert limited.value.status_code == 429 and limited.value.response.headers["retry-after"] == "7"
        assert "scripted 429" in limited.value.message
        await client.close()

        claude = anthropic.AsyncAnthropic(base_url=served.url, api_key="hr_acme", max_retries=0)
        message = await claude.messages.create(model="claude", max_tokens=9, messages=TURNS)
        assert message.content[0].text == "echo hi" and message.id.startswith("msg_") and message.usage.output_tokens == 4
        async with claude.messages.stream(model="claude", max_tokens=9, messages=TURNS) as told:
            assert "".join([piece async for piece in told.text_stream]) == "echo hi"
            assert (await told.get_final_message()).stop_reason == "end_turn"
        with pytest.raises(anthropic.InternalServerError) as failed:
            await claude.messages.create(model="broken", max_tokens=9, messages=TURNS)
        assert failed.value.body["error"] == {"type": "api_error", "message": "scripted 500"}
        await claude.close()

        halves = [(served.journal.begun[event_id], got) for event_id, got in served.journal.finished.items()]
        assert [got.status for _, got in halves].count(200) == 7 and len(halves) == 9
        await drain(tmp_path, halves)


async def drain(directory: Path, halves: list[Any]) -> None:
    """Every exchange becomes an event; those that were answered are priced, and none may train."""
    proxy = Proxy(directory, Clock())
    proxy.consent()
    journal = proxy.journal()
    await write(journal, *halves)
    journal.close()
    proxy.drain()
    with proxy.services.database.read() as connection:
        for asked, got in halves:
            event = find_event(connection, "acme", asked.event_id)
            assert event is not None and event.m["completion_id"] == asked.completion_id
            if got.status == httpx.codes.OK:
                assert event.m["cost_usd"] > 0 and event.m["usage"]["total_tokens"] == 14
                assert event.m["engine"]["name"] == "litellm" and event.a["messages"]
            else:
                assert event.y["error"]["message"].startswith("scripted")
    reasons = [tuple(row) for row in proxy.rows(select(eligibility.c.eligible, eligibility.c.reason).distinct())]
    assert sorted(reasons) == [(False, "engine_error"), (False, "external_model")]
    proxy.services.database.close()
