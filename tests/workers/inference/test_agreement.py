"""The check that matters: on the same weights, the engine's logprobs are those of the trainer, and of a plain forward pass."""

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
from tests.workers.trainer.micro import row
from workers.inference.client import EngineClient, swap
from workers.trainer.packing import pack
from workers.trainer.policy import Policy
from workers.trainer.ranks import Ranks

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


def trainer_logprobs(policy: Policy, prompt_ids: list[int], output_ids: list[int], temperature: float) -> np.ndarray:
    """The same by the trainer's own forward, as a step takes it: [N] float32."""
    ids = prompt_ids + output_ids
    with torch.no_grad():
        logprobs, _ = policy.logprobs(pack([row(ids, range(len(prompt_ids), len(ids)), temperature=temperature)]))
    policy.release()
    return logprobs.numpy()


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_engine_and_trainer_logprobs_agree_in_float32(sglang_engine: RunningEngine, ranks: Ranks, temperature: float) -> None:
    policy, of_trainer, of_plain_forward = Policy(sglang_engine.model_dir, ranks, "float32"), [], []
    for question in QUESTIONS:
        answer = answer_to(sglang_engine, question, temperature)
        choice = answer.choice()
        asked, sampled = (answer.prompt_ids, choice.output_ids, temperature), np.asarray(choice.logprobs, dtype=np.float32)
        of_trainer.append(np.abs(trainer_logprobs(policy, *asked) - sampled))
        of_plain_forward.append(np.abs(forward_logprobs(sglang_engine.model_dir, *asked) - sampled))
    for deltas in (np.concatenate(of_trainer), np.concatenate(of_plain_forward)):
        assert np.median(deltas) <= TOLERANCE
        assert np.max(deltas) <= TOLERANCE


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
