"""How many turns of a trajectory a version learned from, and why the others were context only; found again by the lease's rules.

Place in the path: after training, for people who ask. Not owned: the rules themselves (``dataproxy.lease.samples``).
"""

from collections import Counter, defaultdict
from collections.abc import Sequence, Set
from dataclasses import dataclass, replace

from sqlalchemy import Connection, select

from dataproxy.admit import VAULT_ONLY
from dataproxy.assemble.sequences import Choice
from dataproxy.lease.samples import against_of
from dataproxy.store.judgements import abstained_events
from dataproxy.store.rewards import rewards_of
from dataproxy.store.schema import eligibility, event
from dataproxy.store.segments import StoredSegment, segments_of

_CHUNK = 500


@dataclass(slots=True, frozen=True)
class LearnedTurns:
    """Of ``num`` calls of the model ``learned`` were learned from; ``left_out`` counts the others by reason."""

    num: int
    learned: int
    left_out: dict[str, int]


def learned_turns(
    connection: Connection,
    tenant: str,
    trajectory_ids: Sequence[str],
    oldest_version: int,
    as_of_us: int,
    vaulted: Set[str] = frozenset(),
) -> dict[str, LearnedTurns]:
    """Trajectory → its turns, as a lease saw them that took none older than ``oldest_version``, by the rewards of ``as_of_us``.

    ``vaulted`` are the trajectories whose raw tokens went along. What was erased since is told by its decisions alone.
    """
    stored, rewards = segments_of(connection, tenant, trajectory_ids), rewards_of(connection, tenant, trajectory_ids)
    abstained = abstained_events(connection, tenant, trajectory_ids)
    decided = _decided(connection, tenant, trajectory_ids)
    found = {}
    for name in trajectory_ids:
        known = [reward for reward in rewards.get(name, []) if reward.received_us <= as_of_us]
        segments = [_with_raw(item) if name in vaulted else item for item in stored.get(name, [])]
        found[name] = _count(decided.get(name, {}) | against_of(segments, known, oldest_version, abstained))
    return found


def trainable_turns(connection: Connection, tenant: str, trajectory_id: str) -> LearnedTurns:
    """The turns that may be learned from by the decisions on record, whatever a lease would say of rewards and age."""
    return _count(_decided(connection, tenant, [trajectory_id]).get(trajectory_id, {}))


def _with_raw(item: StoredSegment) -> StoredSegment:
    return replace(item, reason="eligible") if item.reason == VAULT_ONLY else item


def _count(against: dict[Choice, str | None]) -> LearnedTurns:
    turns: dict[str, list[str | None]] = defaultdict(list)
    for (event_id, _), reason in sorted(against.items(), key=lambda one: one[0]):
        turns[event_id].append(reason)
    left_out = Counter(reasons[0] for reasons in turns.values() if None not in reasons)
    return LearnedTurns(len(turns), len(turns) - left_out.total(), {str(name): num for name, num in left_out.most_common()})


def _decided(connection: Connection, tenant: str, trajectory_ids: Sequence[str]) -> dict[str, dict[Choice, str | None]]:
    """Trajectory → choice → the decision's reason against it; in two steps, so that a planner begins with the trajectories."""
    whose: dict[str, str] = {}
    for start in range(0, len(trajectory_ids), _CHUNK):
        mine = (event.c.tenant == tenant, event.c.trajectory_id.in_(trajectory_ids[start : start + _CHUNK]))
        whose |= {
            row.event_id: row.trajectory_id
            for row in connection.execute(select(event.c.event_id, event.c.trajectory_id).where(*mine))
        }
    names, found = list(whose), defaultdict[str, dict[Choice, str | None]](dict)
    for start in range(0, len(names), _CHUNK):
        where = (eligibility.c.tenant == tenant, eligibility.c.event_id.in_(names[start : start + _CHUNK]))
        for row in connection.execute(select(eligibility).where(*where)):
            found[whose[row.event_id]][row.event_id, row.choice] = None if row.eligible else row.reason
    return found
