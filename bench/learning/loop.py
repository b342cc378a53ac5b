"""One arm of one seed: tickets in, success by tick out, every step by the trainer's own batch, rows, loss and update.

A tick is one batch sampled; a step is taken on the batch whose rewards are known by then. Owns the order; not owned: anything that
learns (``workers.trainer``).
"""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from atdp.samples import Lease, TrainSample
from bench.learning.arms import Arm
from bench.learning.sampler import Sampler, Weights, samples_of
from bench.learning.task import tickets
from workers.trainer.batch import make_batch, split
from workers.trainer.policy import Policy
from workers.trainer.ranks import Ranks
from workers.trainer.selection import Head
from workers.trainer.settings import Settings
from workers.trainer.statistics import summary
from workers.trainer.step import Schedule, make_optimizer, microbatches, train
from workers.trainer.version_directory import TrainerState

HELD_OUT = 512
_ANY = 10_000


@dataclass(slots=True)
class Curve:
    """What came of a run: `ticks` and the held-out `success` then; `steps` taken, and means over them."""

    ticks: list[int] = field(default_factory=list)
    success: list[float] = field(default_factory=list)
    steps: int = 0
    numbers: dict[str, float] = field(default_factory=dict)


@dataclass(slots=True, frozen=True)
class Plan:
    """`ticks` batches of `batch` tickets; held-out success every `every` ticks."""

    ticks: int = 120
    batch: int = 64
    every: int = 10
    learning_rate: float = 1e-3


def run_arm(arm: Arm, seed: int, directory: Path, ranks: Ranks, plan: Plan) -> Curve:
    """Run `arm` from the model in `directory`; prompts depend on `seed` and tick alone, so that arms see the same ones."""
    learner, sampler, curve = _Learner(arm, directory, ranks, plan), Sampler(directory), Curve()
    waiting: list[list[TrainSample]] = []
    for tick in range(plan.ticks + 1):
        if tick % plan.every == 0:
            held_out = tickets(np.random.default_rng([seed, 2]), HELD_OUT)
            answers = sampler.answer(learner.versions[-1], held_out, seed)
            curve.ticks.append(tick)
            curve.success.append(float(np.mean([reward == 1.0 for reward in answers.rewards])))
        if tick == plan.ticks or not arm.learns:
            continue
        waiting.append(_sampled(arm, learner, sampler, plan, seed, tick))
        if tick >= arm.delay:
            learner.step(waiting[tick - arm.delay], f"lease-{tick}")
    curve.steps = learner.state.steps
    curve.numbers = {name: float(np.mean(values)) for name, values in learner.numbers.items()}
    return curve


def _sampled(arm: Arm, learner: "_Learner", sampler: Sampler, plan: Plan, seed: int, tick: int) -> list[TrainSample]:
    version = 0 if arm.offline else max(0, len(learner.versions) - 1 - arm.lag)
    asked = tickets(np.random.default_rng([seed, 3, tick]), plan.batch)
    given = sampler.answer(learner.versions[version], asked, 1000 * seed + tick)
    random = np.random.default_rng([seed, 4, tick])
    rewards = random.permutation(given.rewards).tolist() if arm.shuffled else given.rewards
    return samples_of(asked, given, rewards, version, f"b{tick}", arm.altered, random)


class _Learner:
    """A trainer of one rank without files: policy, optimizer, and the weights of every version."""

    def __init__(self, arm: Arm, directory: Path, ranks: Ranks, plan: Plan) -> None:
        self._ranks = ranks
        self._settings = Settings(  # type: ignore[call-arg]  # the defaults of the others
            data_dir=directory, config_dir=directory, model_path=directory, engine_urls=["http://none"], compute_dtype="float32",
            train_layers=0, learning_rate=plan.learning_rate, batch_trajectories=plan.batch, keep_versions=_ANY + 1,
            max_staleness=_ANY if arm.max_staleness is None else arm.max_staleness, behaviour_weight=arm.correction,
            microbatch_tokens=_ANY,
        )  # fmt: skip
        self._policy = Policy(directory, ranks, "float32")
        self._optimizer = make_optimizer(self._policy, plan.learning_rate, 0.0)
        self.state = TrainerState()
        self.versions: list[Weights] = [self._weights()]
        self.numbers: dict[str, list[float]] = {}

    def step(self, samples: list[TrainSample], lease_id: str) -> None:
        """What ``workers.trainer.loop.take_step`` computes between a lease and a version."""
        settings, index = self._settings, len(self.versions) - 1
        head = Head(index, frozenset(range(index + 1)), {})
        batch = make_batch(Lease(lease_id, 0, samples), head, self.state, settings)
        if not batch.samples:
            return
        minibatches = [
            microbatches(rows, self._ranks, settings.microbatch_tokens)
            for rows in split(batch, settings.updates_per_batch, settings.seed)
        ]
        schedule = Schedule(settings.learning_rate, settings.warmup_updates, settings.max_grad_norm)
        statistics, grad_norm = train(
            self._policy, self._optimizer, minibatches, settings.objective(), schedule, self.state.updates, self._ranks
        )
        self.state = batch.state
        self.versions.append(self._weights())
        for name, value in {**batch.summary(), **summary(statistics), "grad_norm": grad_norm}.items():
            self.numbers.setdefault(name, []).append(value)

    def _weights(self) -> Weights:
        return {name: value.clone() for name, value in self._policy.gather("float32").items()}
