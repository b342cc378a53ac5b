"""What is learned: a ticket holds two codes of each of four kinds among words, and the answer is the two codes of the first kind.

The model starts as one that knows the form (it answers with two codes of one kind) and seldom the right kind (one answer in ten
that it imitates): as an instruction-tuned model before it is rewarded. Owns the ticket, the checker and that start; not owned:
learning from rewards (``loop``).
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import torch
from numpy.random import Generator
from numpy.typing import NDArray

BEGIN, ASK, END, RESERVED = 0, 1, 2, 3
WORDS: Final = range(4, 24)
NUM_KINDS: Final = 4
CODES_A_KIND: Final = 10
FIRST_CODE: Final = 24
VOCABULARY: Final = FIRST_CODE + NUM_KINDS * CODES_A_KIND
NUM_WORDS: Final = 10
PROMPT_TOKENS: Final = 1 + 2 * NUM_KINDS + NUM_WORDS + 1
ANSWER_TOKENS: Final = 3
FORM_REWARD: Final = 0.1
_RIGHT_AT_FIRST: Final = 0.10
_WARM_STEPS: Final = 600
_WARM_BATCH: Final = 128

Ids = NDArray[np.int32]


@dataclass(slots=True, frozen=True)
class Tickets:
    """`prompts` [N, PROMPT_TOKENS] and `codes` [N, NUM_KINDS, 2]: the codes of each kind; the first kind's are the answer."""

    prompts: Ids
    codes: Ids


def tickets(random: Generator, num: int) -> Tickets:
    """`num` fresh tickets: codes and words in any order, no code twice in one."""
    drawn = np.argsort(random.random((num, NUM_KINDS, CODES_A_KIND)), axis=2)[:, :, :2]
    codes = (FIRST_CODE + CODES_A_KIND * np.arange(NUM_KINDS)[None, :, None] + drawn).astype(np.int32)
    words = random.integers(WORDS.start, WORDS.stop, (num, NUM_WORDS))
    body = random.permuted(np.concatenate([codes.reshape(num, -1), words], axis=1), axis=1)
    begin, ask = np.full((num, 1), BEGIN), np.full((num, 1), ASK)
    return Tickets(np.concatenate([begin, body, ask], axis=1).astype(np.int32), codes)


def reward_of(codes: Ids, answer: Ids) -> float:
    """1 for the first kind's two codes, FORM_REWARD for another kind's, else 0. `codes` [NUM_KINDS, 2], `answer` [N]."""
    *found, last = answer.tolist()
    kinds = [sorted(pair) for pair in codes.tolist()]
    if last != END or sorted(found) not in kinds:
        return 0.0
    return 1.0 if sorted(found) == kinds[0] else FORM_REWARD


def make_model(directory: Path, seed: int) -> Path:
    """A Hugging Face folder with the model that every arm of `seed` starts from (0.1 M parameters; about 20 s on a core)."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=16, max_position_embeddings=64, tie_word_embeddings=True, initializer_range=0.1,
        bos_token_id=BEGIN, eos_token_id=END, pad_token_id=RESERVED,
    )  # fmt: skip
    torch.manual_seed(seed)
    model = LlamaForCausalLM(config)
    _warm_up(model, np.random.default_rng([seed, 1]))
    model.save_pretrained(directory)
    return directory


def _warm_up(model: torch.nn.Module, random: Generator) -> None:
    """Imitate answers of the right form: the right one `_RIGHT_AT_FIRST` of the time, else one of the three others."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.0)
    shares = [_RIGHT_AT_FIRST, *[(1 - _RIGHT_AT_FIRST) / (NUM_KINDS - 1)] * (NUM_KINDS - 1)]
    for step in range(_WARM_STEPS):
        for group in optimizer.param_groups:
            group["lr"] = 3e-3 * min(1.0, (step + 1) / 50, (_WARM_STEPS - step) / 200)
        batch = tickets(random, _WARM_BATCH)
        chosen = batch.codes[np.arange(_WARM_BATCH), random.choice(NUM_KINDS, _WARM_BATCH, p=shares)]
        chosen = random.permuted(chosen, axis=1)
        answers = np.concatenate([chosen, np.full((_WARM_BATCH, 1), END, np.int32)], axis=1)
        ids = torch.from_numpy(np.concatenate([batch.prompts, answers], axis=1)).long()
        logits = model(input_ids=ids[:, :-1]).logits[:, PROMPT_TOKENS - 1 :]
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, VOCABULARY), ids[:, PROMPT_TOKENS:].reshape(-1))
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()
