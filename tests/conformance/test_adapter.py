"""LoRA adapters served as versions: nothing pauses, every token bears the adapter that sampled it, and a wrong one never serves."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from tests.conformance.answers import Answer, parse
from tests.conformance.conftest import CHAT, LONG_PROMPT, Target, _next_turn
from tests.conformance.conversations import CONVERSATIONS
from tests.e2e.agents.model import ensure_agent_model
from tests.engine_fixture import MODEL_NAME, RunningEngine
from tests.fakes.engine import FakeEngine
from workers.inference.client import AdapterVersion, ChecksumMismatch, EngineClient, EngineRefused, SwapFailed, swap, swap_adapter
from workers.inference.client.adapter_checksum import adapter_digest
from workers.inference.client.checksum import load_directory
from workers.trainer.adapter import FOLDER, Adapter, AdapterRecord, AdapterShape, add_adapter, is_adapter, write_adapter

SHAPE = AdapterShape(4, 8.0, ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"))
BASE = "v000000"
NUM_STREAMS, NUM_TOKENS = 4, 120


@pytest.fixture(scope="module")
def model_dir() -> Path:
    """The weights of `knowing_engine`."""
    return ensure_agent_model(CONVERSATIONS)


@pytest.fixture(scope="module")
def adapters(model_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> list[AdapterVersion]:
    """Two adapters that change what is sampled, in version directories as the trainer writes them."""
    return [make_adapter(model_dir, tmp_path_factory.mktemp(f"version-{seed}"), seed) for seed in (1, 2)]


def make_adapter(model_dir: Path, directory: Path, seed: int) -> AdapterVersion:
    model = AutoModelForCausalLM.from_pretrained(model_dir, dtype=torch.float32)
    add_adapter(model, SHAPE)
    random = torch.Generator().manual_seed(seed)
    names = [(name, parameter.shape) for name, parameter in model.named_parameters() if is_adapter(name)]
    tensors = {name: torch.randn(shape, generator=random) for name, shape in names}
    write_adapter(directory, Adapter(AdapterRecord(BASE, SHAPE), tensors))
    return AdapterVersion(directory / FOLDER, BASE, model_dir)


@pytest.fixture(params=["fake", pytest.param("sglang", marks=pytest.mark.engine)])
async def target(request: pytest.FixtureRequest, model_dir: Path) -> AsyncIterator[Target]:
    """An engine that serves its base weights, and does again afterwards."""
    if request.param == "fake":
        engine = FakeEngine(model_name=MODEL_NAME)
        engine.model.weights.tensors = load_directory(model_dir)
        engine.model.token_gate = _next_turn
        async with engine.serve() as url, EngineClient(url) as client:
            yield Target("fake", url, client, model_dir, BASE)
        return
    running: RunningEngine = request.getfixturevalue("knowing_engine")
    async with EngineClient(running.url) as client:
        yield Target("sglang", running.url, client, model_dir, BASE)
        await swap(client, model_dir, BASE)
        state = await client.state()
        assert (state.weight_version, state.base_version, state.num_in_flight) == (BASE, BASE, 0)


def rid() -> str:
    return f"chatcmpl-{uuid.uuid4().hex}"


async def stamp(target: Target) -> list[tuple[str, int, int]]:
    return (await target.chat(rid(), max_tokens=3, ignore_eos=True)).choice().versions


async def begin_streams(target: Target) -> list[asyncio.Task[Answer]]:
    """Streams of which each has its first bytes: it has begun to sample."""
    begun = asyncio.Semaphore(0)

    async def run() -> Answer:
        body = {"model": MODEL_NAME, "messages": [{"role": "user", "content": LONG_PROMPT}], "max_tokens": NUM_TOKENS}
        body |= {"stream": True, "temperature": 1, "ignore_eos": True}
        headers = {"x-headrace-record": "1", "x-headrace-rid": rid()}
        async with target.client._http.stream("POST", CHAT, json=body, headers=headers) as response:
            pieces = response.aiter_bytes()
            parts = [await anext(pieces)]
            begun.release()
            parts += [part async for part in pieces]
        return parse(httpx.Response(200, headers={"content-type": "text/event-stream"}, content=b"".join(parts)))

    tasks = [asyncio.create_task(run()) for _ in range(NUM_STREAMS)]
    for _ in tasks:
        await begun.acquire()
    return tasks


async def test_new_requests_get_the_newest_adapter_and_running_ones_keep_theirs(
    target: Target, adapters: list[AdapterVersion]
) -> None:
    streams = {BASE: await begin_streams(target)}
    for number, adapter in enumerate(adapters, 1):
        report = await swap_adapter(target.client, adapter, version := f"v{number:06d}")
        assert (report.version, report.num_aborted, report.paused_s) == (version, 0, 0.0)
        assert report.checksum == await target.client.checksum() == adapter.checksum("float32")
        assert await stamp(target) == [(version, 0, 3)]
        streams[version] = await begin_streams(target)
    for version, tasks in streams.items():
        for answer in await asyncio.gather(*tasks):
            assert answer.record is not None and "incomplete" not in answer.record
            assert answer.choice().versions == [(version, 0, NUM_TOKENS)]
    state = await target.client.state()
    assert (state.weight_version, state.base_version) == ("v000002", BASE)


async def test_samples_of_one_call_share_its_adapter(target: Target, adapters: list[AdapterVersion]) -> None:
    await swap_adapter(target.client, adapters[0], "v000001")
    answer = await target.chat(rid(), n=3, max_tokens=2, temperature=1, ignore_eos=True)
    assert [answer.choice(index).versions for index in range(3)] == [[("v000001", 0, 2)]] * 3


async def test_an_adapter_that_is_not_what_it_says_never_serves(
    target: Target, adapters: list[AdapterVersion], tmp_path: Path
) -> None:
    first, second = adapters
    await swap_adapter(target.client, first, "v000001")
    with pytest.raises(EngineRefused) as refusal:
        await target.client.take_adapter("v000002", BASE, second.directory, adapter_digest(first.directory))
    assert refusal.value.status == 409
    with pytest.raises(EngineRefused, match="belongs to v000007"):
        await target.client.take_adapter("v000002", "v000007", second.directory, adapter_digest(second.directory))
    with pytest.raises(EngineRefused) as refusal:
        await target.client.take_adapter("v000002", BASE, tmp_path, "0" * 64)
    assert refusal.value.status == 400
    with pytest.raises(ChecksumMismatch):
        await swap_adapter(target.client, second, "v000002", expected=first.checksum("float32"))
    assert await stamp(target) == [("v000001", 0, 3)]
    assert await target.client.checksum() == first.checksum("float32")


async def test_whole_weights_replace_an_adapter_and_a_failed_swap_leaves_it(target: Target, adapters: list[AdapterVersion]) -> None:
    await swap_adapter(target.client, adapters[0], "v000001")
    with pytest.raises(SwapFailed) as failure:
        await swap(target.client, target.model_dir, "v000009", "0" * 64)
    assert failure.value.restored and await stamp(target) == [("v000001", 0, 3)]
    assert await target.client.checksum() == adapters[0].checksum("float32")
    report = await swap(target.client, target.model_dir, "v000002")
    assert await stamp(target) == [("v000002", 0, 3)] and await target.client.checksum() == report.checksum


async def test_an_engine_with_other_weights_gets_the_adapters_own_first(
    target: Target, adapters: list[AdapterVersion], tmp_path: Path
) -> None:
    await swap(target.client, target.model_dir, "v000004")
    report = await swap_adapter(target.client, adapters[0], "v000005")
    assert report.paused_s > 0 and await stamp(target) == [("v000005", 0, 3)]
    assert (await target.client.state()).base_version == BASE


@pytest.mark.engine
async def test_the_engines_logprobs_with_an_adapter_are_those_of_a_forward_with_it(
    knowing_engine: RunningEngine, model_dir: Path, adapters: list[AdapterVersion]
) -> None:
    from peft import PeftModel

    async with EngineClient(knowing_engine.url) as client:
        target = Target("sglang", knowing_engine.url, client, model_dir, BASE)
        await swap_adapter(client, adapters[0], "v000001")
        answer = await target.chat(rid(), temperature=1, max_tokens=48, ignore_eos=True)
        await swap(client, model_dir, BASE)
    ids = torch.tensor([answer.prompt_ids + (sampled := answer.choice().output_ids)])
    base = AutoModelForCausalLM.from_pretrained(model_dir, dtype=torch.float32)

    def logprobs(model: torch.nn.Module) -> np.ndarray:
        with torch.inference_mode():
            scores = torch.log_softmax(model(ids).logits[0, len(answer.prompt_ids) - 1 : -1], -1)
        return scores.gather(1, torch.tensor(sampled)[:, None])[:, 0].numpy()

    without = logprobs(base)
    told = np.asarray(answer.choice().logprobs)
    assert np.abs(logprobs(PeftModel.from_pretrained(base, adapters[0].directory)) - told).max() <= 0.01
    assert np.abs(without - told).max() > 0.1, "the adapter changes nothing that this test could see"


@pytest.mark.engine
async def test_an_adapter_is_let_go_once_no_request_uses_it(knowing_engine: RunningEngine, adapters: list[AdapterVersion]) -> None:
    def loaded() -> set[str]:
        cards = httpx.get(f"{knowing_engine.url}/v1/models", timeout=30).json()["data"]
        return {card["id"].partition("-")[0] for card in cards if card["parent"]}

    async with EngineClient(knowing_engine.url) as client:
        target = Target("sglang", knowing_engine.url, client, adapters[0].base_directory, BASE)
        await swap_adapter(client, adapters[0], "v000001")
        call = asyncio.create_task(target.chat(ours := rid(), max_tokens=1500, ignore_eos=True))
        await target.until(lambda state: state.num_in_flight == 1)
        await swap_adapter(client, adapters[1], "v000002")
        assert await asyncio.to_thread(loaded) == {"v000001", "v000002"}
        await target.abort_until_done(ours, call)
        async with asyncio.timeout(60):
            while await asyncio.to_thread(loaded) != {"v000002"}:  # noqa: ASYNC110  # another process's state
                await asyncio.sleep(0.02)
        await swap(client, adapters[0].base_directory, BASE)
        async with asyncio.timeout(60):
            while await asyncio.to_thread(loaded):  # noqa: ASYNC110  # another process's state
                await asyncio.sleep(0.02)
