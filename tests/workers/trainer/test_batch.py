"""From a lease to numbers: each agent by its own rule, and every trajectory left out for a reason."""

from pathlib import Path

import msgspec

from atdp.rewards import Reward
from atdp.samples import Lease, TrainSample, TurnSpan
from tests.workers.trainer.micro import sample, sequence
from workers.trainer.batch import make_batch, split
from workers.trainer.learning import Learning
from workers.trainer.selection import Head
from workers.trainer.settings import Settings
from workers.trainer.version_directory import TrainerState

PLACES = {"data_dir": Path("d"), "config_dir": Path("c"), "model_path": Path("m"), "engine_urls": ["http://e"]}
HEAD = Head(index=0, line=frozenset({0}), uses={})


def told(name: str, ids: list[int], value: float | None) -> TrainSample:
    """One turn, rewarded or not."""
    made = sample(name, [sequence(ids, [2, 3], turns=[TurnSpan(f"e-{name}", 2, 4)])], value or 0.0)
    given = [] if value is None else [Reward(f"r-{name}", "acme", "event", f"e-{name}", "score", value, "user", 1)]
    return msgspec.structs.replace(made, rewards=given)


def test_each_agent_is_learned_from_by_its_own_rule() -> None:
    settings = Settings(**PLACES, agents={"acme/triage": Learning(advantage="rloo", credit="turns")})
    assert settings.learning_of("acme", "other") == Learning() != settings.learning_of("acme", "triage")
    samples = [told("a", [1, 2, 3, 4], 1.0), told("b", [1, 2, 5, 6], 4.0)]
    batch = make_batch(Lease("lease-1", 0, samples), HEAD, TrainerState(), settings)
    assert [advantage.values() for advantage in batch.advantages] == [[-3.0], [3.0]]
    rows = [row for update in split(batch, 1, 0) for row in update]
    assert [row.advantages[row.trained].tolist() for row in rows] == [[-3.0, -3.0], [3.0, 3.0]]


def test_what_no_reward_reaches_is_left_out_and_counted() -> None:
    settings = Settings(**PLACES, learning=Learning(credit="turns"))
    samples = [told("a", [1, 2, 3, 4], None), told("b", [1, 2, 5, 6], 4.0), sample("c", [], 0.0)]
    batch = make_batch(Lease("lease-1", 0, samples, {"stale": 2}), HEAD, TrainerState(), settings)
    assert [item.trajectory_id for item in batch.samples] == ["b"]
    assert batch.skipped == {"a": "no_credit", "c": "no_trained_token"}
    assert batch.left_out == {"stale": 2, "no_credit": 1, "no_trained_token": 1}
