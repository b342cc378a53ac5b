"""Rewards as a trajectory's page shows them: which turn each is for, and which of them a later one replaced."""

from types import SimpleNamespace
from typing import Any

from dataproxy.console.given_rewards import at_turns, given_rewards


def row(reward_id: str, target: str, value: float | None = 1.0, at_us: int = 1, **changes: Any) -> Any:
    kind = "turn" if "#" in target else "event" if target.startswith("e") else "trajectory"
    fields: dict[str, Any] = {"reward_id": reward_id, "tenant": "t", "target_kind": kind, "target_id": target, "value": value}
    fields |= {"name": "helpful", "source": "user", "received_us": at_us, "supersedes": None, "idempotency_key": None}
    return SimpleNamespace(**(fields | {"label": None, "correction": None, "explanation": None} | changes))


def test_a_reward_stands_at_its_turn_and_one_of_a_choice_names_it() -> None:
    given = given_rewards([row("r1", "e1"), row("r2", "e2#3"), row("r3", "tr-1")])
    assert {name: [(one.row.reward_id, one.choice) for one in found] for name, found in at_turns(given).items()} == {
        "e1": [("r1", "")],
        "e2": [("r2", "3")],
    }


def test_what_a_later_word_on_the_same_thing_replaced_is_marked_as_the_sum_takes_it() -> None:
    again = row("r2", "e1", 0.0, at_us=2)
    other, named = row("r3", "e1", at_us=1, name="solved"), row("r4", "e2", at_us=3, supersedes="r5")
    given = given_rewards([row("r1", "e1"), again, other, row("r5", "e3"), named])
    assert {one.row.reward_id for one in given if one.replaced} == {"r1", "r5"}


def test_a_correction_without_a_value_counts_until_it_is_superseded() -> None:
    given = given_rewards([row("r1", "e1", None, correction="say noon"), row("r2", "e1", None, correction="no", supersedes="r1")])
    assert [(one.replaced, [name for name, _ in one.texts]) for one in given] == [(True, ["correction"]), (False, ["correction"])]
