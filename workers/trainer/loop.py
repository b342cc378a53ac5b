"""The training loop: lease → batch manifest → advantage → proximal logprobs → step → publish → swap → ack.

Every rank runs it; the first one, with the coordinator, decides and speaks. Place in the path: step 3, from lease to ack.
"""

from __future__ import annotations

import contextlib
from dataclasses import asdict, dataclass

import msgspec

from atdp.samples import Lease
from workers.trainer.batch import make_batch, split
from workers.trainer.coordinator import Coordinator, Follow, Order, Stop, Train
from workers.trainer.engines import SwapResult
from workers.trainer.gate import Gate
from workers.trainer.learner import Learner
from workers.trainer.metrics import Phases, Reporter
from workers.trainer.paths import TrainerPaths
from workers.trainer.ranks import Ranks
from workers.trainer.settings import Settings
from workers.trainer.statistics import merge, summary
from workers.trainer.step import Schedule, microbatches, train
from workers.trainer.version_directory import read_scores


@dataclass(slots=True, frozen=True)
class Trainer:
    """One rank of the trainer; `coordinator`, `reporter` and `gate` on the first rank only."""

    settings: Settings
    paths: TrainerPaths
    ranks: Ranks
    learner: Learner
    coordinator: Coordinator | None
    reporter: Reporter | None
    gate: Gate | None = None


def run(trainer: Trainer) -> None:
    """Train until told to stop, then write a checkpoint. At the start the head is v000000, and what serves is followed."""
    learner, coordinator = trainer.learner, trainer.coordinator
    while True:
        decided = msgspec.msgpack.encode(coordinator.next_order(learner.version)) if coordinator else None
        order = msgspec.msgpack.decode(trainer.ranks.share(decided), type=Order)
        if isinstance(order, Stop):
            learner.save()
            return
        if isinstance(order, Follow):
            learner.restore(order.version)
        elif isinstance(order, Train):
            take_step(trainer, order.lease)


def take_step(trainer: Trainer, lease: Lease) -> None:
    """Make one version of one lease, or leave everything as it was."""
    settings, ranks, learner, coordinator = trainer.settings, trainer.ranks, trainer.learner, trainer.coordinator
    phases, parent, gate = Phases(), learner.version, trainer.gate
    waited_before = gate.waited_s if gate else 0.0

    batch = make_batch(lease, learner.head(), learner.state, settings)
    if not batch.samples:
        if coordinator:
            coordinator.give_back(lease, batch)
        return
    record = coordinator.begin(lease, batch, parent) if coordinator else None

    swap: SwapResult | None = None
    with coordinator.keep(lease) if coordinator else contextlib.nullcontext() as keeper:
        with phases.phase("train"):
            minibatches = [
                microbatches(rows, ranks, settings.microbatch_tokens)
                for rows in split(batch, settings.updates_per_batch, settings.seed)
            ]
            before = gate.pass_ if gate else lambda: None
            told = None
            if learner.critic:
                minibatches, told = learner.critic.judge(learner.policy, minibatches, settings.scale_floor, before)
            schedule = Schedule(settings.learning_rate, settings.warmup_updates, settings.max_grad_norm)
            statistics, grad_norm = train(
                learner.policy,
                learner.optimizer,
                minibatches,
                settings.objective(),
                schedule,
                learner.state.updates,
                ranks,
                learner.reference,
                before,
            )
        waited_s = gate.waited_s - waited_before if gate else 0.0
        if gate:
            gate.leave()
        total = merge(ranks.gather(statistics))
        with phases.phase("gather"):
            weights, adapter = learner.policy.gather(settings.publish_dtype), learner.adapter()
            critic = learner.critic.tensors() if learner.critic else None
        numbers = {**batch.summary(), **summary(total), "grad_norm": grad_norm, "waited_s": waited_s, **phases.seconds()}
        numbers |= asdict(told) if told else {}
        if coordinator and record and keeper:
            with phases.phase("publish"):
                swap = coordinator.publish(record, batch, weights, adapter, numbers, keeper, critic)

    outcome = ranks.share(msgspec.msgpack.encode(record.version if record and swap else None) if coordinator else None)
    version = msgspec.msgpack.decode(outcome, type=str | None)
    if version is None:  # the lease was lost or a rollback came in between: what was computed is not to be
        learner.restore(parent)
        return
    with phases.phase("checkpoint"):
        learner.advance(version, batch.state)
    if trainer.reporter and swap:
        seconds = phases.seconds()
        computing_s = seconds["train_s"] - waited_s
        speed = total.num_tokens / computing_s, total.computed / computing_s
        numbers |= {**seconds, "trained_tokens_per_s": speed[0], "computed_tokens_per_s": speed[1]}
        numbers |= {**read_scores(trainer.paths.versions / version), **swap.numbers()}
        trainer.reporter.report(version, parent, numbers, batch.left_out)
