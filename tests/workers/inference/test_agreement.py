"""The check that matters: on the same weights, the engine's logprobs are those of a plain forward pass."""

import asyncio
import uuid
from pathlib import Path

import httpx
import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from tests.conformance.answers import Answer, parse
from tests.engine_fixture import FIRST_VERSION, MODEL_NAME, RunningEngine
from workers.inference.client import EngineClient, swap

pytestmark = pytest.mark.engine

QUESTIONS = ["Where is my order 4711?", "Ich möchte mein Geld zurück – sofort! 🙂", "列出三种河流", "x"]
TOLERANCE = 0.01


def answer_to(engine: RunningEngine, question: str, temperature: float) -> Answer:
    body = {"model": MODEL_NAME, "messages": [{"role": "user", "content": question}], "temperature": temperature, "max_tokens": 64}
    headers = {"x-headrace-record": "1", "x-headrace-rid": f"chatcmpl-{uuid.uuid4().hex}"}
    return parse(httpx.post(f"{engine.url}/v1/chat/completions", json=body, headers=headers, timeout=60))


def forward_logprobs(model_dir: Path, prompt_ids: list[int], output_ids: list[int], temperature: float) -> np.ndarray:
    """Log-softmax of logits / temperature at the sampled ids: [N] float32."""
    model = AutoModelForCausalLM.from_pretrained(model_dir, dtype=torch.float32)
    with torch.inference_mode():
        logits = model(torch.tensor([prompt_ids + output_ids])).logits[0, len(prompt_ids) - 1 : -1]
    scores = torch.log_softmax(logits.float() / temperature, dim=-1)
    return scores.gather(1, torch.tensor(output_ids)[:, None])[:, 0].numpy()


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_engine_and_trainer_logprobs_agree_in_float32(sglang_engine: RunningEngine, temperature: float) -> None:
    deltas = []
    for question in QUESTIONS:
        answer = answer_to(sglang_engine, question, temperature)
        choice = answer.choice()
        mine = forward_logprobs(sglang_engine.model_dir, answer.prompt_ids, choice.output_ids, temperature)
        deltas.append(np.abs(mine - np.asarray(choice.logprobs, dtype=np.float32)))
    assert np.median(np.concatenate(deltas)) <= TOLERANCE
    assert np.max(np.concatenate(deltas)) <= TOLERANCE


async def test_after_a_swap_the_prefix_cache_holds_nothing_of_the_old_weights(
    sglang_engine: RunningEngine, other_model_dir: Path
) -> None:
    await asyncio.to_thread(answer_to, sglang_engine, QUESTIONS[0], 1.0)  # fills the cache with the old weights' KV
    async with EngineClient(sglang_engine.url) as client:
        await swap(client, other_model_dir, "v000001")
        answer = await asyncio.to_thread(answer_to, sglang_engine, QUESTIONS[0], 1.0)
        await swap(client, sglang_engine.model_dir, FIRST_VERSION)
    choice = answer.choice()
    mine = forward_logprobs(other_model_dir, answer.prompt_ids, choice.output_ids, 1.0)
    assert np.max(np.abs(mine - np.asarray(choice.logprobs))) <= TOLERANCE


def test_logprobs_of_greedy_answers_are_those_of_temperature_one(sglang_engine: RunningEngine) -> None:
    answer = answer_to(sglang_engine, QUESTIONS[0], 0)
    choice = answer.choice()
    assert answer.record is not None and answer.record["sampling"]["greedy"]
    mine = forward_logprobs(sglang_engine.model_dir, answer.prompt_ids, choice.output_ids, 1.0)
    assert np.max(np.abs(mine - np.asarray(choice.logprobs))) <= TOLERANCE
