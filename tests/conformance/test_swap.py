"""Swaps under traffic: everything completes, tokens name the weights that sampled them, and a failed swap changes nothing."""

import asyncio
import resource
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from tests.conformance.answers import Answer
from tests.conformance.conftest import Target
from workers.inference.client import (
    ChecksumMismatch,
    EngineRefused,
    InferenceError,
    SharedMemoryFailed,
    SwapFailed,
    Way,
    expected_checksum,
    swap,
)
from workers.inference.client.buckets import make_buckets
from workers.inference.client.checksum import load_directory

NUM_STREAMS = 16
NUM_TOKENS = 120


def rid() -> str:
    return f"chatcmpl-{uuid.uuid4().hex}"


def following(version: str) -> str:
    return f"v{int(version[1:]) + 1:06d}"


async def put_back(target: Target) -> None:
    """Weights and version as the test found them."""
    await swap(target.client, load_directory(target.model_dir), target.version)


def start_streams(target: Target) -> list[asyncio.Task[Answer]]:
    body = {"stream": True, "max_tokens": NUM_TOKENS, "temperature": 1, "ignore_eos": True, "messages": LONG}
    return [asyncio.create_task(target.chat(rid(), **body)) for _ in range(NUM_STREAMS)]


LONG = [{"role": "user", "content": "Go on and on and on, please. " * 8}]


async def test_all_streams_in_flight_complete_across_a_swap(target: Target, other_model_dir: Path) -> None:
    streams = start_streams(target)
    await target.until(lambda state: state.num_in_flight == NUM_STREAMS)
    new = following(target.version)
    report = await swap(target.client, load_directory(other_model_dir), new)
    answers = await asyncio.gather(*streams)
    assert (report.version, report.num_aborted, report.num_in_flight_before) == (new, 0, NUM_STREAMS)
    spans = [answer.choice().versions for answer in answers]
    for answer, span in zip(answers, spans, strict=True):
        assert answer.record is not None and "incomplete" not in answer.record
        assert answer.finish_reason() == "length" and len(answer.choice().output_ids) == NUM_TOKENS
        assert [version for version, _, _ in span] in ([target.version, new], [new])
        assert span[0][1] == 0 and span[-1][2] == NUM_TOKENS
    assert any(len(span) == 2 for span in spans), "no stream was caught between two versions"
    await put_back(target)


FORMS = [("tensors", None), ("tensors", "distributed"), ("small buckets", None), ("small buckets", "distributed"),
         ("directory", None), ("directory", "tensors"), ("directory", "distributed")]  # fmt: skip


@pytest.mark.parametrize(("form", "way"), FORMS)
async def test_after_a_swap_in_any_way_the_engine_holds_exactly_the_version(
    target: Target, other_model_dir: Path, form: str, way: Way | None
) -> None:
    tensors = load_directory(other_model_dir)
    weights = other_model_dir if form == "directory" else {**tensors, "lm_head.weight": tensors["model.embed_tokens.weight"]}
    size = 65536 if form == "small buckets" else 64 << 20
    report = await swap(target.client, weights, following(target.version), bucket_bytes=size, way=way)
    assert await target.client.checksum() == report.checksum == expected_checksum(other_model_dir)
    assert await target.client.weight_version() == following(target.version)
    assert (await target.client.model_info())["served_model_name"] == "tiny"
    answer = await target.chat(rid(), max_tokens=3)
    assert [version for version, _, _ in answer.choice().versions] == [following(target.version)]
    await put_back(target)
    assert await target.client.checksum() == expected_checksum(target.model_dir)


async def test_bad_tensors_by_broadcast_leave_the_old_weights_serving(target: Target, other_model_dir: Path) -> None:
    before, good = await target.client.checksum(), load_directory(other_model_dir)
    with pytest.raises(SwapFailed) as failure:
        await swap(target.client, too_short(good), following(target.version), expected_checksum(good), way="distributed")
    assert failure.value.restored and await target.client.checksum() == before
    assert await target.client.weight_version() == target.version and await target.client.ready()


def too_short(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {**tensors, "model.norm.weight": tensors["model.norm.weight"][:5].clone()}


def unknown_name(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {("model.nowhere.weight" if name == "model.norm.weight" else name): value for name, value in tensors.items()}


@pytest.mark.parametrize("spoil", [too_short, unknown_name])
async def test_a_swap_of_bad_tensors_leaves_the_old_weights_serving(target: Target, other_model_dir: Path, spoil) -> None:
    good = load_directory(other_model_dir)
    good["model.norm.weight"] = good["model.norm.weight"] + 1  # so that a missing one is not the same by chance
    before = await target.client.checksum()
    streams = start_streams(target)
    await target.until(lambda state: state.num_in_flight == NUM_STREAMS)
    with pytest.raises(SwapFailed) as failure:
        await swap(target.client, spoil(good), following(target.version), expected_checksum(good))
    answers = await asyncio.gather(*streams)
    assert failure.value.restored
    assert await target.client.checksum() == before
    assert await target.client.weight_version() == target.version
    assert all(answer.choice().versions == [(target.version, 0, NUM_TOKENS)] for answer in answers)
    assert await target.client.ready()


@contextmanager
def no_file_above(size_bytes: int) -> Iterator[None]:
    """This process can make no larger file, so none in shared memory."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize(
    ("bucket_bytes", "kind"), [(64 << 20, SharedMemoryFailed), (1 << 16, SwapFailed)], ids=["before the pause", "in it"]
)
async def test_shared_memory_that_gives_out_leaves_the_old_weights_serving(
    target: Target, other_model_dir: Path, bucket_bytes: int, kind: type[InferenceError]
) -> None:
    before, weights = await target.client.checksum(), load_directory(other_model_dir)
    the_large_last = dict(sorted(weights.items(), key=lambda item: item[1].nbytes))
    with no_file_above(1 << 20), pytest.raises(kind, match="shared memory"):
        await swap(target.client, the_large_last, following(target.version), bucket_bytes=bucket_bytes)
    state = await target.client.state()
    assert (state.paused, state.update, state.weight_version) == (False, "none", target.version)
    assert await target.client.checksum() == before


async def test_a_swap_whose_checksum_is_wrong_leaves_the_old_weights_serving(target: Target, other_model_dir: Path) -> None:
    before = await target.client.checksum()
    with pytest.raises(ChecksumMismatch) as failure:
        await swap(target.client, load_directory(other_model_dir), following(target.version), "0" * 64)
    assert failure.value.restored
    assert await target.client.checksum() == before
    answer = await target.chat(rid(), max_tokens=3)
    assert answer.choice().versions == [(target.version, 0, 3)]


async def test_a_missing_directory_leaves_the_old_weights_serving(target: Target, tmp_path: Path) -> None:
    before = await target.client.checksum()
    with pytest.raises(SwapFailed) as failure:
        await swap(target.client, tmp_path / "no-such-version", following(target.version), "0" * 64)
    assert failure.value.restored and await target.client.checksum() == before
    assert (await target.chat(rid(), max_tokens=3)).status == 200


async def test_a_continue_in_the_middle_of_an_update_serves_the_old_weights(target: Target, other_model_dir: Path) -> None:
    before = await target.client.checksum()
    first, *_ = make_buckets(load_directory(other_model_dir), 4096)
    await target.client.pause()
    await target.client.begin_update()
    await target.client.update_from_tensors(first.payload, None)
    assert await target.client.checksum() != before
    await target.client.resume()
    assert await target.client.checksum() == before
    assert (await target.client.state()).update == "none"


async def test_a_cancelled_swap_puts_the_old_weights_back_at_once(target: Target, other_model_dir: Path) -> None:
    before = await target.client.checksum()
    tensors = load_directory(other_model_dir)
    task = asyncio.create_task(swap(target.client, tensors, following(target.version), bucket_bytes=64))
    await target.until(lambda state: state.update == "begun")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    state = await target.client.state()
    assert (state.paused, state.update, state.weight_version) == (False, "none", target.version)
    assert await target.client.checksum() == before


async def test_tensors_outside_an_update_are_refused(target: Target, other_model_dir: Path) -> None:
    bucket = next(make_buckets(load_directory(other_model_dir)))
    before = await target.client.checksum()
    with pytest.raises(EngineRefused) as refusal:
        await target.client.update_from_tensors(bucket.payload, "v000009")
    assert refusal.value.status == 400
    assert (await target.client.checksum(), await target.client.weight_version()) == (before, target.version)


async def test_weights_are_not_replaced_while_the_engine_samples(target: Target) -> None:
    with pytest.raises(EngineRefused, match="paused"):
        await target.client.begin_update()
    assert (await target.client.state()).update == "none"


async def test_a_swap_undoes_what_a_dead_publisher_left(target: Target, other_model_dir: Path) -> None:
    before = await target.client.checksum()
    first, *_ = make_buckets(load_directory(other_model_dir), 4096)
    await target.client.pause()
    await target.client.begin_update()
    await target.client.update_from_tensors(first.payload, "v000098")
    with pytest.raises(ChecksumMismatch):
        await swap(target.client, load_directory(other_model_dir), following(target.version), "0" * 64)
    assert (await target.client.checksum(), await target.client.weight_version()) == (before, target.version)


async def test_an_update_while_kv_is_kept_says_no_although_the_weights_changed(target: Target, other_model_dir: Path) -> None:
    """Why a swap pauses by retract: `in_place` keeps the KV cache of running requests, and a refused flush is no refusal."""
    before = await target.client.checksum()
    ours = rid()
    async with target.streaming(ours) as rest:  # its first token is here, so it holds KV
        await target.client.pause("in_place")
        await target.client.begin_update()
        bucket = next(make_buckets(load_directory(other_model_dir)))
        with pytest.raises(EngineRefused, match="cache was not flushed"):
            await target.client.update_from_tensors(bucket.payload, "v000009")
        assert await target.client.checksum() != before
        await target.client.restore()
        await target.client.resume()
        assert await target.client.checksum() == before
        await target.abort_until_done(ours, asyncio.ensure_future(rest))


async def test_a_paused_engine_is_not_ready_and_holds_what_it_is_asked(target: Target) -> None:
    await target.client.pause()
    assert not await target.client.ready()
    call = asyncio.create_task(target.chat(rid(), max_tokens=3))
    await target.until(lambda state: state.num_in_flight == 1)
    await target.client.resume()
    assert (await call).status == 200
    assert await target.client.ready()
