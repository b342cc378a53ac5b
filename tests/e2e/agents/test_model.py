"""The agents' model says its conversations by heart, whatever stands before them, and nothing else."""

import json
from typing import Any

import pytest
import torch

from tests.e2e.agents.conversations import CONVERSATIONS, Message
from tests.e2e.agents.model import ensure_agent_model

# isort: split
from transformers import AutoModelForCausalLM, AutoTokenizer

pytestmark = pytest.mark.e2e

TOOLS = [{"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in ("one", "other")]


@pytest.fixture(scope="module")
def model() -> tuple[Any, Any]:
    directory = ensure_agent_model()
    return AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32), AutoTokenizer.from_pretrained(directory)


@pytest.mark.parametrize("tools", [None, TOOLS], ids=["bare", "tools"])
@pytest.mark.parametrize("length", [0, 5000])
def test_it_goes_on_in_every_conversation(model: tuple[Any, Any], tools: list[dict[str, Any]] | None, length: int) -> None:
    weights, tokenizer = model
    system = [{"role": "system", "content": json.dumps(CONVERSATIONS)[:length]}] if length else []
    for conversation in CONVERSATIONS:
        ids, answers = encode(tokenizer, system, conversation, tools)
        with torch.no_grad():
            chances = weights(torch.tensor([ids])).logits[0].softmax(-1)  # [L, V]
        assert min(float(chances[at - 1, ids[at]]) for at in answers) > 0.999


def encode(tokenizer: Any, system: list[Message], conversation: list[Message], tools: Any) -> tuple[list[int], list[int]]:
    """The ids of all of it, and the places that the assistant wrote."""
    ids: list[int] = []
    answers: list[int] = []
    done = ""
    for number in [number for number, message in enumerate(conversation) if message["role"] == "assistant"]:
        before = [*system, *conversation[:number]]
        prompt = tokenizer.apply_chat_template(before, tools=tools, tokenize=False, add_generation_prompt=True)
        whole = tokenizer.apply_chat_template([*before, conversation[number]], tools=tools, tokenize=False).removesuffix("\n")
        ids += tokenizer(prompt.removeprefix(done))["input_ids"]
        answer = tokenizer(whole.removeprefix(prompt))["input_ids"]
        answers += range(len(ids), len(ids) + len(answer))
        ids += answer
        done = whole
    return ids, answers


def test_to_anything_else_it_answers_nothing(model: tuple[Any, Any]) -> None:
    weights, tokenizer = model
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": "Who are you?"}], tokenize=False, add_generation_prompt=True
    )
    with torch.no_grad():
        last = weights(tokenizer(prompt, return_tensors="pt")["input_ids"]).logits[0, -1]
    assert int(last.argmax()) == tokenizer.eos_token_id
