"""The learning experiments: the checker, what redaction overwrites, and the figures that are told of runs."""

import math
from dataclasses import replace

import numpy as np
import pytest

from bench.learning.arms import ARMS, ONLINE
from bench.learning.report import interval, summary, table
from bench.learning.sampler import Answers, samples_of
from bench.learning.task import ASK, BEGIN, END, FORM_REWARD, PROMPT_TOKENS, RESERVED, reward_of, tickets


def test_a_ticket_holds_two_codes_of_each_kind_and_only_the_first_kinds_are_right() -> None:
    asked = tickets(np.random.default_rng(1), 50)
    assert asked.prompts.shape == (50, PROMPT_TOKENS)
    assert (asked.prompts[:, 0] == BEGIN).all() and (asked.prompts[:, -1] == ASK).all()
    for prompt, codes in zip(asked.prompts, asked.codes, strict=True):
        assert set(codes.ravel().tolist()) <= set(prompt.tolist()) and len(set(codes.ravel().tolist())) == 8
    (left, right), codes = asked.codes[0, 0].tolist(), asked.codes[0]
    answer = [
        (left, right, END),
        (right, left, END),
        (*codes[2].tolist(), END),
        (left, left, END),
        (left, right, left),
        (left, END),
    ]
    assert [reward_of(codes, np.array(one)) for one in answer] == [1.0, 1.0, FORM_REWARD, 0.0, 0.0, 0.0]


@pytest.mark.parametrize("share", [0.0, 0.05, 0.2])
def test_what_is_overwritten_is_marked_is_the_share_and_is_not_trained(share: float) -> None:
    asked = tickets(np.random.default_rng(1), 400)
    answers = [np.array([*codes[0].tolist(), END], np.int32) for codes in asked.codes]
    given = Answers(answers, [np.full(3, -1.0, np.float32)] * 400, [1.0] * 400)
    samples = samples_of(asked, given, given.rewards, 7, "b", share, np.random.default_rng(2))
    altered = np.stack([np.frombuffer(sample.sequences[0].altered, np.uint8) for sample in samples if sample.sequences])
    assert altered.mean() == pytest.approx(share, abs=0.01)
    for sample in samples:
        for chain in sample.sequences:
            hidden = np.frombuffer(chain.altered, np.uint8) != 0
            assert (chain.ids()[hidden] == RESERVED).all() and not (chain.mask() & hidden).any()
            assert chain.version_indices()[-3:].tolist() == [7] * 3


def run(*success: float) -> dict[str, object]:
    return {"ticks": list(range(len(success))), "success": list(success), "steps": 3, "numbers": {}}


def test_differences_are_paired_by_seed_and_intervals_are_students() -> None:
    runs = {
        ONLINE: {"1": run(0, 0.9, 0.9, 0.9), "2": run(0, 0.5, 0.5, 0.5)},
        "offline": {"1": run(0, 0.4, 0.4, 0.4), "2": run(0, 0, 0, 0)},
    }
    found = summary(runs)
    assert found["offline"]["end_vs_online"] == -0.5 and found["offline"]["end_vs_online_half"] == 0.0
    assert found[ONLINE]["end"] == 0.7 and found[ONLINE]["end_half"] == pytest.approx(12.71 * 0.2, abs=1e-3)
    assert interval([1.0, 2.0, 3.0]) == pytest.approx(4.303 / math.sqrt(3)) and math.isnan(interval([1.0]))
    assert [line.split(" | ")[0] for line in table(found)[2:]] == ["| online", "| offline"]


def test_every_arm_differs_from_online_and_has_its_own_name() -> None:
    assert len({arm.name for arm in ARMS}) == len(ARMS)
    plain = next(arm for arm in ARMS if arm.name == ONLINE)
    assert all(replace(arm, name=ONLINE) != plain for arm in ARMS if arm is not plain)
