"""The rewards of a trajectory as its page shows them: all on the time line, and each at the turn that it is for. Pure."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row

from atdp.rewards import event_of, rewards_that_count
from dataproxy.console.plain import Plain, plain
from dataproxy.store.rewards import as_reward

_TEXTS = ("label", "correction", "explanation")


@dataclass(slots=True, frozen=True)
class Given:
    """One row of ``reward``. ``replaced``: a later one counts in its place. ``texts``: (which, what was said with it).

    ``event_id``: the turn that it is for, "" for all of the trajectory or session; ``choice``: which answer of it, "" for all.
    """

    row: Row[Any]
    replaced: bool
    texts: list[tuple[str, Plain]]
    event_id: str
    choice: str


def given_rewards(rows: Sequence[Row[Any]]) -> list[Given]:
    """In the order of ``rows``."""
    counting = {one.reward_id for one in rewards_that_count(as_reward(row) for row in rows if row.value is not None)}
    superseded = {row.supersedes for row in rows if row.supersedes}
    return [
        Given(
            row,
            row.reward_id not in counting if row.value is not None else row.reward_id in superseded,
            [(name, plain(text)) for name in _TEXTS if (text := getattr(row, name))],
            event_of(row.target_kind, row.target_id) if row.target_kind in ("event", "turn") else "",
            row.target_id.rpartition("#")[2] if row.target_kind == "turn" else "",
        )
        for row in rows
    ]


def at_turns(rewards: Sequence[Given]) -> dict[str, list[Given]]:
    """Event → those that are for it."""
    found: dict[str, list[Given]] = defaultdict(list)
    for one in rewards:
        if one.event_id:
            found[one.event_id].append(one)
    return dict(found)
