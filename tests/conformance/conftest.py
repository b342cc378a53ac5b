"""One suite, two engines: the scripted fake of the unit tests, and real SGLang with the tiny model."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import anthropic
import openai
import pytest

from tests.conformance.answers import Answer, parse
from tests.conformance.conversations import REPLIES
from tests.engine_fixture import MODEL_NAME, RunningEngine
from tests.fakes.dialects.parts import flat
from tests.fakes.engine import FakeEngine
from workers.inference.client import EngineClient, EngineState
from workers.inference.client.checksum import load_directory

CHAT = "/v1/chat/completions"
T = TypeVar("T")
PATIENCE_S = 60.0
LONG_PROMPT = "Tell me all you know about rivers, weirs and mills. " * 3


@dataclass
class Target:
    """An engine under test. `kind` is `fake` or `sglang`; both serve the weights of `model_dir` as `version`."""

    kind: str
    url: str
    client: EngineClient
    model_dir: Path
    version: str

    async def chat(self, order: str | None, /, headers: dict[str, str] | None = None, **body: Any) -> Answer:
        """One call; with an `order` it asks for a record under that rid, as the gateway does."""
        ours = {} if order is None else {"x-headrace-record": "1", "x-headrace-rid": order}
        request = {"model": MODEL_NAME, "messages": [{"role": "user", "content": LONG_PROMPT}], "temperature": 0, **body}
        response = await self.client._http.post(CHAT, json=request, headers={**ours, **(headers or {})})
        return parse(response)

    async def ask(self, path: str, rid: str, body: dict[str, Any], records: bool = True, **headers: str) -> Answer:
        """One call of any dialect with the gateway's headers; `records` says whether it asks for the record."""
        ours = {"x-headrace-rid": rid, **({"x-headrace-record": "1"} if records else {}), **headers}
        return parse(await self.client._http.post(path, json={"model": MODEL_NAME, **body}, headers=ours))

    @asynccontextmanager
    async def streaming(self, order: str) -> AsyncIterator[Coroutine[Any, Any, bytes]]:
        """A long stream of which the first piece of text has come; gives what reads the rest."""
        request = {"model": MODEL_NAME, "messages": [{"role": "user", "content": LONG_PROMPT}], "max_tokens": 1500}
        body = {**request, "stream": True, "ignore_eos": True}
        headers = {"x-headrace-record": "1", "x-headrace-rid": order}
        async with self.client._http.stream("POST", CHAT, json=body, headers=headers) as response:
            pieces = response.aiter_bytes()
            got = b""
            while got.count(b'"content":') < 2:  # the first one opens the message
                got += await anext(pieces)
            yield _drain(pieces)

    async def until(self, condition: Callable[[EngineState], bool]) -> EngineState:
        """Ask for the engine's state until `condition` holds of it."""
        async with asyncio.timeout(PATIENCE_S):
            while not condition(state := await self.client.state()):  # noqa: ASYNC110  # another process's state
                await asyncio.sleep(0.005)
        return state

    async def abort_until_done(self, rid: str, call: asyncio.Future[T]) -> T:
        """Abort as often as it takes: an abort can pass the request on its way to the scheduler."""
        while not call.done():
            await self.client.abort(rid)
            await asyncio.wait([call], timeout=0.05)
        return call.result()


@pytest.fixture(params=["fake", pytest.param("sglang", marks=pytest.mark.engine)])
async def target(request: pytest.FixtureRequest, tiny_model_dir: Path) -> AsyncIterator[Target]:
    """Each test leaves the engine as it found it: same weights, not paused, nothing running."""
    if request.param == "fake":
        engine = FakeEngine(model_name=MODEL_NAME)
        engine.model.weights.tensors = load_directory(tiny_model_dir)
        engine.model.token_gate = _next_turn
        async with engine.serve() as url, EngineClient(url) as client:
            yield Target("fake", url, client, tiny_model_dir, "v000000")
        return
    running: RunningEngine = request.getfixturevalue("sglang_engine")
    async with EngineClient(running.url) as client:
        version = await client.weight_version()
        yield Target("sglang", running.url, client, tiny_model_dir, version)
        state = await client.state()
        assert (state.paused, state.update, state.num_in_flight) == (False, "none", 0), "the test left the engine busy"


@pytest.fixture(params=["fake", pytest.param("sglang", marks=pytest.mark.engine)])
async def knowing(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Target]:
    """An engine whose model reasons and calls tools, as `conversations` has it."""
    if request.param == "fake":
        engine = FakeEngine(model_name=MODEL_NAME)
        engine.model.reply = lambda body: next(
            said for asked, said in REPLIES.items() if flat(body["messages"][-1]["content"]).endswith(asked)
        )
        async with engine.serve() as url, EngineClient(url) as client:
            yield Target("fake", url, client, tmp_path, "v000000")
        return
    running: RunningEngine = request.getfixturevalue("knowing_engine")
    async with EngineClient(running.url) as client:
        yield Target("sglang", running.url, client, running.model_dir, await client.weight_version())


def openai_on(target: Target) -> openai.AsyncOpenAI:
    """OpenAI's SDK, unmodified, on the engine."""
    return openai.AsyncOpenAI(base_url=f"{target.url}/v1", api_key="none", max_retries=0)


def anthropic_on(target: Target) -> anthropic.AsyncAnthropic:
    """Anthropic's SDK, unmodified, on the engine."""
    return anthropic.AsyncAnthropic(base_url=target.url, api_key="none", max_retries=0)


@pytest.fixture
async def openai_sdk(target: Target) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai_on(target) as sdk:
        yield sdk


@pytest.fixture
async def anthropic_sdk(target: Target) -> AsyncIterator[anthropic.AsyncAnthropic]:
    async with anthropic_on(target) as sdk:
        yield sdk


async def _drain(pieces: AsyncIterator[bytes]) -> bytes:
    return b"".join([piece async for piece in pieces])


async def _next_turn() -> None:
    await asyncio.sleep(0.001)
