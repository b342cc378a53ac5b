"""The rules: reward drop, mismatch, stale, starvation. Pure; the thresholds stand here and in each rule's own words."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from atdp.versions import PolicyVersion
from dataproxy.client.watch_types import Alarm, VersionOutcome

LEAST_REWARDED = 20
"""Rewarded trajectories that a version needs before its mean is compared."""
DROP_ERRORS = 3.0
"""Standard errors of the difference."""
MISMATCH_NATS = 0.1
STALE_SHARE, STALE_VERSIONS, LEAST_WAITING = 0.5, 2, 20
STARVED_TRAJECTORIES = 100
WINDOW_S = 3600


@dataclass(slots=True, frozen=True)
class Facts:
    """What the rules look at. ``recent`` counts trajectories of the last WINDOW_S by what became of them.

    Its names: ``all``, ``rewarded``, ``trained``, ``waiting`` (rewarded, may train, not trained) and ``stale`` (of those, too old).
    """

    outcomes: Sequence[VersionOutcome]
    versions: Sequence[PolicyVersion]
    recent: dict[str, int] = field(default_factory=dict)


def alarms_of(facts: Facts) -> list[Alarm]:
    """Every rule, firing or not."""
    return [_reward_drop(facts.outcomes), _mismatch(facts.versions), _stale(facts.recent), _starvation(facts.recent)]


def _reward_drop(outcomes: Sequence[VersionOutcome]) -> Alarm:
    rule = (
        f"The mean reward under the newest version lies more than {DROP_ERRORS:g} standard errors below that under the one before; "
        f"both with at least {LEAST_REWARDED} rewarded trajectories."
    )
    ripe = [one for one in outcomes if one.looked_at >= LEAST_REWARDED]
    if len(ripe) < 2:
        return Alarm("reward_drop", False, None, DROP_ERRORS, rule, "Too few versions have been rewarded often enough.")
    before, now = ripe[-2:]
    spread = (before.error() ** 2 + now.error() ** 2) ** 0.5
    drop = before.mean - now.mean
    value = drop / spread if spread else (0.0 if drop <= 0 else DROP_ERRORS + 1)
    detail = f"{before.version}: {before.mean:.3g} of {before.looked_at}; {now.version}: {now.mean:.3g} of {now.looked_at}."
    return Alarm("reward_drop", value > DROP_ERRORS, value, DROP_ERRORS, rule, detail)


def _mismatch(versions: Sequence[PolicyVersion]) -> Alarm:
    rule = f"The median difference of engine's and trainer's log-probabilities in the last step is above {MISMATCH_NATS:g} nats."
    measured = [one for one in versions if "logprob_diff_median" in one.metrics]
    if not measured:
        return Alarm("mismatch", False, None, MISMATCH_NATS, rule, "No step has measured it, or its figures are not yours to see.")
    value = measured[-1].metrics["logprob_diff_median"]
    return Alarm("mismatch", not value <= MISMATCH_NATS, value, MISMATCH_NATS, rule, f"{measured[-1].version}: {value:.3g} nats.")


def _stale(recent: dict[str, int]) -> Alarm:
    rule = (
        f"Of the last hour's rewarded trajectories that wait to be trained on, more than {STALE_SHARE:.0%} were sampled more than "
        f"{STALE_VERSIONS} versions ago; at least {LEAST_WAITING} wait."
    )
    waiting, stale = recent.get("waiting", 0), recent.get("stale", 0)
    detail = f"{stale} of {waiting} that wait."
    if waiting < LEAST_WAITING:
        return Alarm("stale", False, None, STALE_SHARE, rule, detail)
    return Alarm("stale", stale / waiting > STALE_SHARE, stale / waiting, STALE_SHARE, rule, detail)


def _starvation(recent: dict[str, int]) -> Alarm:
    rule = f"At least {STARVED_TRAJECTORIES} trajectories ended in the last hour, and none of them was trained on."
    num, trained = recent.get("all", 0), recent.get("trained", 0)
    detail = f"{num} ended: {recent.get('rewarded', 0)} rewarded, {recent.get('waiting', 0)} wait, {trained} trained on."
    value = float(num) if trained == 0 else 0.0
    return Alarm("starvation", value >= STARVED_TRAJECTORIES, value, STARVED_TRAJECTORIES, rule, detail)
