"""What one rank, and each of two, run in `test_two_ranks_learn_with_a_critic_as_one`.

Steps on a value head's advantages by the learner, a checkpoint after each, and the third step once more by a learner that was
restored from the second.
"""

import sys
from pathlib import Path

import msgspec
import numpy as np

from atdp.rewards import Reward
from atdp.samples import Lease, TrainSample, TurnSpan
from tests.workers.trainer.micro import PLAIN, SCHEDULE, VOCABULARY, sample, sequence
from workers.trainer.batch import make_batch, split
from workers.trainer.critic import Told
from workers.trainer.learner import Learner
from workers.trainer.learning import Learning, ValueHead
from workers.trainer.paths import TrainerPaths
from workers.trainer.ranks import Ranks, end_process, start_ranks, stop_ranks
from workers.trainer.selection import Head
from workers.trainer.settings import Settings
from workers.trainer.step import microbatches, train
from workers.trainer.version_directory import BASE_VERSION, TrainerState, VersionManifest, adopt_base, write_version

HEAD = Head(index=0, line=frozenset({0}), uses={})
NUM_EPISODES = 5  # two ranks cannot share them evenly
KEPT, AGAIN, ELSEWHERE = "v000003", "v000004", "v000005"
"""The third step: by the learner that took the first two, by one restored, by one on another number of ranks."""


def run(micro: Path, ranks: Ranks, data_dir: Path) -> list[Told]:
    """Three steps, and the third again; gives what the critic told of the first three."""
    paths = TrainerPaths(data_dir)
    if ranks.is_first:
        adopt_base(paths.versions, micro, 1)
    ranks.wait()
    learner = new_learner(paths, ranks)
    told = [step(learner, paths, ranks, f"v{number:06d}") for number in (1, 2)]
    again = new_learner(paths, ranks)
    again.restore(learner.version)
    return [*told, step(learner, paths, ranks, KEPT), step(again, paths, ranks, AGAIN)][:3]


def new_learner(paths: TrainerPaths, ranks: Ranks) -> Learner:
    """A learner with a critic that writes a checkpoint after each step."""
    return Learner(settings(paths.data_dir), paths, ranks)


def settings(data_dir: Path) -> Settings:
    """Full weights in float32, and GAE for everybody."""
    places = {"data_dir": data_dir, "config_dir": data_dir, "model_path": data_dir, "engine_urls": ["http://e"]}
    return Settings(
        **places,  # type: ignore[arg-type]
        compute_dtype="float32",
        publish_dtype="float32",
        train_layers=0,
        learning_rate=SCHEDULE.learning_rate,
        checkpoint_every=1,
        keep_checkpoints=9,
        learning=Learning(advantage="gae", credit="both", discount=0.9),
        value_head=ValueHead(learning_rate=1e-2),
    )


def step(learner: Learner, paths: TrainerPaths, ranks: Ranks, version: str) -> Told:
    """Make one version, as the loop does, without data proxy and engines."""
    assert learner.critic is not None
    batch = make_batch(Lease("lease-1", 0, episodes()), HEAD, TrainerState(), settings(paths.data_dir))
    minibatches = [microbatches(rows, ranks, 12) for rows in split(batch, 1, 0)]
    judged, told = learner.critic.judge(learner.policy, minibatches, 0.05, lambda: None)
    assert told is not None
    train(learner.policy, learner.optimizer, judged, PLAIN, SCHEDULE, learner.state.updates, ranks)
    weights, critic = learner.policy.gather("float32"), learner.critic.tensors()
    state = TrainerState(learner.state.steps + 1, learner.state.updates + 1)
    if ranks.is_first:
        manifest = VersionManifest(version, learner.version, 1, {}, "float32", state)
        write_version(paths.versions, manifest, weights, paths.versions / BASE_VERSION, critic=critic)
    ranks.wait()
    learner.advance(version, state)
    return told


def episodes() -> list[TrainSample]:
    """Two turns each, of different lengths, rewarded turn by turn and at the end."""
    random = np.random.default_rng(3)
    found = []
    for number in range(NUM_EPISODES):
        name, length = f"s{number}", 9 + 2 * number
        ids = random.integers(3, VOCABULARY, length).tolist()
        turns = [TurnSpan(f"{name}-1", 2, 5), TurnSpan(f"{name}-2", length - 3, length)]
        chain = sequence(ids, [2, 3, 4, *range(length - 3, length)], turns=turns)
        own, end = float(random.normal()), float(random.normal())
        rewards = [
            Reward(f"{name}-own", "acme", "event", f"{name}-1", "score", own, "user", 1),
            Reward(f"{name}-end", "acme", "trajectory", name, "done", end, "user", 2),
        ]
        found.append(msgspec.structs.replace(sample(name, [chain], own + end), rewards=rewards))
    return found


def main() -> None:
    """One of several ranks."""
    micro, data_dir = map(Path, sys.argv[1:])
    ranks = start_ranks()
    told = run(micro, ranks, data_dir)
    if ranks.is_first:
        (data_dir / "told.json").write_bytes(msgspec.json.encode(told))
    stop_ranks()


if __name__ == "__main__":
    main()
    end_process(0)
