"""The gradient through model, tree attention and loss against finite differences and against padded batches, in float64."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

from tests.workers.trainer.micro import PLAIN, VOCABULARY, random_rows, sample, sequence
from workers.trainer import attention
from workers.trainer.credit import PerTurn
from workers.trainer.loss import decoupled_ppo, token_logprobs
from workers.trainer.packing import pack, sort_rows
from workers.trainer.policy import tree_logprobs
from workers.trainer.rows import Row, build_rows


@pytest.fixture(scope="module")
def exact(micro: Path) -> nn.Module:
    """The micro model in float64 throughout: transformers' own norm computes in float32."""
    return load(micro, attention.NAME)


def load(micro: Path, name: str) -> nn.Module:
    from transformers import AutoModelForCausalLM

    attention.register()
    model: nn.Module = AutoModelForCausalLM.from_pretrained(micro, dtype=torch.float64, attn_implementation=name)
    for path, module in list(model.named_modules()):
        if type(module).__name__ == "LlamaRMSNorm":
            norm = nn.RMSNorm(module.weight.shape, eps=module.variance_epsilon, dtype=torch.float64)
            norm.weight = module.weight
            model.set_submodule(path, norm)
    return model


def tree_loss(model: nn.Module, rows: Sequence[Row]) -> torch.Tensor:
    """The step's loss with a proximal policy that is not the policy, so that ratios differ from 1."""
    batch = pack(sort_rows(rows))
    logprobs, _ = tree_logprobs(model, batch)
    args = (batch.behaviour.double(), batch.advantages.double(), batch.weights.double(), PLAIN)
    return decoupled_ppo(logprobs, batch.behaviour.double() + 0.05, *args).loss


def padded_loss(model: nn.Module, rows: Sequence[Row]) -> torch.Tensor:
    """The same from rows side by side, padded on the right, with transformers' attention."""
    length = max(len(row.token_ids) for row in rows)
    ids = torch.zeros(len(rows), length, dtype=torch.long)
    seen = torch.zeros(len(rows), length, dtype=torch.long)
    for index, row in enumerate(rows):
        ids[index, : len(row.token_ids)] = torch.from_numpy(row.token_ids)
        seen[index, : len(row.token_ids)] = 1
    logits = model(input_ids=ids, attention_mask=seen).logits
    total = torch.zeros((), dtype=torch.float64)
    for index, row in enumerate(rows):
        at = torch.from_numpy(np.flatnonzero(row.trained))
        temperatures = torch.full((len(at),), row.temperature, dtype=torch.float64)
        logprobs, _ = token_logprobs(logits[index, at - 1], temperatures, torch.arange(len(at)), ids[index, at])
        behaviour = torch.from_numpy(row.behaviour)[at].double()
        same = torch.full_like(behaviour, float(row.advantages[0])), torch.full_like(behaviour, float(row.weight))
        total = total + decoupled_ppo(logprobs, behaviour + 0.05, behaviour, *same, PLAIN).loss
    return total


def flat_gradient(model: nn.Module, loss: torch.Tensor) -> torch.Tensor:
    return torch.cat([part.flatten() for part in torch.autograd.grad(loss, list(model.parameters()))])


def test_the_gradient_is_that_of_finite_differences_through_the_whole_model(exact: nn.Module) -> None:
    rows, parameters = random_rows(3, 4), list(exact.parameters())
    gradient = flat_gradient(exact, tree_loss(exact, rows))
    random, step = torch.Generator().manual_seed(1), 1e-5
    for _ in range(6):
        direction = [torch.randn(p.shape, generator=random, dtype=torch.float64) for p in parameters]
        ends = []
        for sign in (1, -1):
            with torch.no_grad():
                for parameter, part in zip(parameters, direction, strict=True):
                    parameter.add_(part, alpha=sign * step)
                ends.append(tree_loss(exact, rows).item())
                for parameter, part in zip(parameters, direction, strict=True):
                    parameter.sub_(part, alpha=sign * step)
        slope = torch.dot(gradient, torch.cat([part.flatten() for part in direction])).item()
        assert (ends[0] - ends[1]) / (2 * step) == pytest.approx(slope, rel=1e-5, abs=1e-8)


def test_packed_rows_have_the_gradient_of_padded_rows(exact: nn.Module, micro: Path) -> None:
    plain, rows = load(micro, "eager"), [*random_rows(1), *random_rows(2, 3)]
    packed, padded = flat_gradient(exact, tree_loss(exact, rows)), flat_gradient(plain, padded_loss(plain, rows))
    assert torch.linalg.vector_norm(packed - padded) <= 1e-6 * torch.linalg.vector_norm(padded)  # cos and sin are float32


@given(st.data())
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_prompt_and_altered_positions_get_exactly_no_gradient(exact: nn.Module, data: st.DataObject) -> None:
    length = data.draw(st.integers(3, 12))
    ids = data.draw(st.lists(st.integers(3, VOCABULARY - 1), min_size=length, max_size=length))
    places = st.sets(st.integers(1, length - 1), min_size=1)
    sampled, altered = data.draw(places), data.draw(st.sets(st.integers(0, length - 1)))
    wanted = sorted(sampled - altered)
    chain = sequence(ids, sorted(sampled), altered=sorted(altered))
    if not wanted:
        return
    batch = pack(build_rows([sample("a", [chain])], [PerTurn(1.0)], 0))
    output = exact(input_ids=batch.token_ids, position_ids=batch.positions, tree=batch.tree, use_cache=False)
    output.logits.retain_grad()
    kept = output.logits[0, batch.predictors]
    logprobs, _ = token_logprobs(kept, batch.temperatures, batch.predictor, batch.targets)
    args = (batch.behaviour, batch.advantages, batch.weights, PLAIN)
    decoupled_ppo(logprobs, logprobs.detach(), *args).loss.backward()
    moved = output.logits.grad[0].abs().sum(-1)
    assert torch.nonzero(moved).flatten().tolist() == [place - 1 for place in wanted]
