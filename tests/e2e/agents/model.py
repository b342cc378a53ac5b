"""A small model that knows a few conversations by heart, tool calls included: real agents get real tool loops out of real SGLang.

Owns its weights, which are written down rather than trained, and the chat template: ChatML with Hermes' tool format as Qwen2.5
has it, but with calls spaced as SGLang's grammar for strict tools spaces them: strict or not, they are the same tokens. Whatever
system prompt and tools stand before them, it goes on in `conversations` as written there; to anything else it answers nothing.
Its context is 131,072 tokens: Hermes Agent refuses less than 64,000. Its MLP has a multiple of 32 neurons: SGLang on a CPU fills
others up with zeros, and its checksum is then no longer that of the file.

One Llama layer suffices. The vector of a token is a constant and a code. Each head looks a fixed number of tokens back: its query
is its key turned back by that many positions, so rotary embedding scores cos(error of the offset) and the right place wins. It
puts the code that it finds there into a place of its own. Each neuron of the MLP knows the codes before one token of the
conversations; where all agree, it writes that token's code, and the tied head reads it out.
"""

import hashlib
import json
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from deploy.paths import cache_dir
from tests.e2e.agents.conversations import CONVERSATIONS, Message
from workers.inference.model import make_tiny

# isort: split
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast  # after `workers`, which makes it importable

OFFSETS: Final = (0, 1, 2, 3, 4, 5, 6, 7, 9, 11, 13, 16, 20, 24, 28, 32)
"""How many tokens back each head looks."""

_TEMPLATE: Final = Path(__file__).with_name("template.jinja")
_CODE: Final = 24
_HEAD: Final = 32
_HIDDEN: Final = 416
_PLACES: Final = 1 + _CODE
_SHARPNESS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Habit:
    """After these ids at these offsets comes `next_id`. Offsets that reach before the conversation are left out."""

    before: dict[int, int]
    next_id: int


def ensure_agent_model(conversations: list[list[Message]] = CONVERSATIONS) -> Path:
    """The model's Hugging Face directory, made at the first call (seconds) and kept in the cache under a hash of its sources.

    Raises:
        ValueError: two places in the conversations look the same to the heads and go on differently.
    """
    sources = [Path(__file__).read_text(), _TEMPLATE.read_text(), json.dumps(conversations)]
    name = f"agent-{hashlib.sha256(''.join(sources).encode()).hexdigest()[:16]}"
    target = cache_dir() / "models" / name
    if not target.is_dir():
        target.parent.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=target.parent))
        try:
            _make(staging, conversations)
            staging.replace(target)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
    return target


def _make(directory: Path, conversations: list[list[Message]]) -> None:
    tokenizer = PreTrainedTokenizerFast.from_pretrained(make_tiny(directory / "tiny", seed=0))
    shutil.rmtree(directory / "tiny")
    tokenizer.chat_template = _TEMPLATE.read_text()
    habits = [habit for conversation in conversations for habit in _habits(tokenizer, conversation)]
    known: dict[tuple[tuple[int, int], ...], int] = {}
    for habit in habits:
        if known.setdefault(tuple(habit.before.items()), habit.next_id) != habit.next_id:
            seen = tokenizer.decode(list(reversed(habit.before.values())))
            raise ValueError(f"two conversations part after {seen!r}: the heads must see farther back")
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer), hidden_size=_HIDDEN, intermediate_size=-(-(len(known) + 1) // 32) * 32, num_hidden_layers=1,
            num_attention_heads=len(OFFSETS), num_key_value_heads=1, head_dim=_HEAD, max_position_embeddings=131_072,
            rms_norm_eps=1e-6, rope_parameters={"rope_type": "default", "rope_theta": 10_000.0}, tie_word_embeddings=True,
            bos_token_id=1, eos_token_id=2, pad_token_id=2,
        )
    )  # fmt: skip
    with torch.no_grad():
        _write(model, [Habit(dict(before), next_id) for before, next_id in known.items()], tokenizer.eos_token_id)
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)


def _habits(tokenizer: PreTrainedTokenizerFast, conversation: list[Message]) -> list[Habit]:
    """One for each token that the assistant wrote, the ends of its answers included."""
    ids: list[int] = []
    habits: list[Habit] = []
    done = ""
    for number, message in enumerate(conversation):
        if message["role"] != "assistant":
            continue
        prompt = tokenizer.apply_chat_template(conversation[:number], tokenize=False, add_generation_prompt=True)
        whole = tokenizer.apply_chat_template(conversation[: number + 1], tokenize=False).removesuffix("\n")
        ids += tokenizer(prompt.removeprefix(done))["input_ids"]
        for token in tokenizer(whole.removeprefix(prompt))["input_ids"]:
            habits.append(Habit({offset: ids[-1 - offset] for offset in OFFSETS if offset < len(ids)}, token))
            ids.append(token)
        done = whole
    return habits


def _write(model: LlamaForCausalLM, habits: list[Habit], end_id: int) -> None:
    """Set every weight. Norms are kept equal for all tokens, so that RMSNorm is one known factor."""
    codes = _codes(model.config.vocab_size)  # [V, C]
    for parameter in model.parameters():
        parameter.zero_()
    layer = model.model.layers[0]
    model.model.embed_tokens.weight[:, 0] = 1.0
    model.model.embed_tokens.weight[:, 1:_PLACES] = codes
    seen = _HIDDEN**0.5 / 2**0.5  # RMSNorm of a vector of norm sqrt(2): constant and code
    layer.input_layernorm.weight.fill_(1 / seen)
    frequencies = 10_000.0 ** (-torch.arange(0, _HEAD, 2) / _HEAD)  # [D/2] radians a token
    layer.self_attn.k_proj.weight[: _HEAD // 2, 0] = 1.0
    layer.self_attn.v_proj.weight[:_CODE, 1:_PLACES] = torch.eye(_CODE)
    for head, offset in enumerate(OFFSETS):
        query = torch.cat([torch.cos(offset * frequencies), -torch.sin(offset * frequencies)])  # [D]
        layer.self_attn.q_proj.weight[head * _HEAD : (head + 1) * _HEAD, 0] = query * _SHARPNESS * _HEAD**0.5
        place = _PLACES + head * _CODE
        layer.self_attn.o_proj.weight[place : place + _CODE, head * _HEAD : head * _HEAD + _CODE] = torch.eye(_CODE)
    layer.post_attention_layernorm.weight.fill_((2 + len(OFFSETS)) ** 0.5 / _HIDDEN**0.5)
    layer.mlp.up_proj.weight[:, 0] = 1.0
    for neuron, habit in enumerate(habits):
        gate = layer.mlp.gate_proj.weight[neuron]
        gate[0] = 20.0 * (0.1 - len(habit.before))
        for offset, token in habit.before.items():
            place = _PLACES + OFFSETS.index(offset) * _CODE
            gate[place : place + _CODE] = 20.0 * codes[token]
        layer.mlp.down_proj.weight[1:_PLACES, neuron] = 1000.0 * codes[habit.next_id]
    layer.mlp.gate_proj.weight[-1, 0] = 1.0  # always on, and weak: where no habit fits, the answer ends
    layer.mlp.down_proj.weight[1:_PLACES, -1] = 20.0 * codes[end_id]
    model.model.norm.weight[1:_PLACES] = 60.0 / _HIDDEN**0.5


def _codes(num: int) -> Tensor:
    """[num, C] unit vectors, the same on every machine."""
    generator = torch.Generator().manual_seed(0)
    return torch.nn.functional.normalize(torch.randn(num, _CODE, generator=generator), dim=1)


if __name__ == "__main__":
    sys.stdout.write(f"{ensure_agent_model()}\n")
