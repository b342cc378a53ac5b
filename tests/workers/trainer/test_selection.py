"""Freshness and fitness at consumption, each reason on its own."""

from dataclasses import replace as replace_dataclass

import msgspec
import pytest

from tests.workers.trainer.micro import sample, sequence
from workers.trainer.selection import Head, head_of, select
from workers.trainer.version_directory import TrainerState, VersionManifest

HEAD = Head(index=7, line=frozenset({7, 6, 4, 3}), uses={})


def fresh(name: str = "a", versions: int | list[int] = 7):  # type: ignore[no-untyped-def]
    return sample(name, [sequence([1, 2, 3, 4], [2, 3], versions=versions)])


def reasons(*samples, head: Head = HEAD) -> dict[str, str]:  # type: ignore[no-untyped-def]
    return select(samples, head, max_staleness=3, max_reuse=1).skipped


def test_fresh_samples_are_chosen_and_their_mean_staleness_told() -> None:
    chosen = select([fresh("a", 7), fresh("b", [4, 6])], HEAD, max_staleness=3, max_reuse=1)
    assert [item.trajectory_id for item in chosen.samples] == ["a", "b"] and chosen.skipped == {}
    assert chosen.staleness == pytest.approx((0 + 0 + 3 + 1) / 4)


def test_one_token_too_old_makes_a_trajectory_stale() -> None:
    assert reasons(fresh("a", [3, 7])) == {"a": "stale"}


def test_tokens_of_weights_that_were_rolled_back_are_left_out() -> None:
    assert reasons(fresh("a", [5, 7]), fresh("b", 9)) == {"a": "other_branch", "b": "other_branch"}


def test_what_the_line_has_learned_from_is_not_used_again() -> None:
    assert reasons(fresh("a"), fresh("b"), head=replace_dataclass(HEAD, uses={"a": 1})) == {"a": "reused"}


def test_untrainable_samples_are_named_by_their_defect() -> None:
    short = msgspec.structs.replace(sequence([1, 2, 3], [2]), logprobs=b"")
    found = reasons(
        sample("cold", [sequence([1, 2], [1], versions=7)], temperature=0.0),
        sample("masked", [sequence([1, 2], [1], versions=7, altered=[1])]),
        sample("broken", [short]),
    )
    assert found == {"cold": "temperature", "masked": "no_trained_token", "broken": "invalid"}


def test_the_head_knows_its_line_and_what_it_learned_from() -> None:
    def manifest(version: str, parent: str, trajectories: list[str]) -> VersionManifest:
        return VersionManifest(version, parent, 0, {}, "float32", TrainerState(), trajectories=trajectories)

    head = head_of([manifest("v000004", "v000002", ["a", "b"]), manifest("v000002", "v000001", ["b"])])
    assert (head.index, head.line, head.uses) == (4, {4, 2}, {"a": 1, "b": 2})
