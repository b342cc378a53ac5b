"""The rules: reward drop, mismatch, stale, starvation. Pure; the thresholds stand here and in each rule's own words.

What a rule finds is said in full: what is so, since when, and, where something is to be done about it, what.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import takewhile

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
    """What the rules look at. ``recent`` counts trajectories that began since ``since_us`` (WINDOW_S ago), by what became of them.

    Its names: ``all``, ``eligible`` (may train), ``rewarded``, ``trained``, ``waiting`` (rewarded, may train, not trained) and
    ``stale`` (of those, too old). ``versions`` come oldest first, without figures where those are not the asker's to see.
    """

    outcomes: Sequence[VersionOutcome]
    versions: Sequence[PolicyVersion]
    recent: dict[str, int] = field(default_factory=dict)
    since_us: int = 0

    def made(self, name: str) -> str:
        """When a version was made, in words."""
        return next((f"made {_moment(one.created_us)}" for one in self.versions if one.version == name), "made at an unknown time")


def alarms_of(facts: Facts) -> list[Alarm]:
    """Every rule, firing or not."""
    return [_reward_drop(facts), _mismatch(facts.versions), _stale(facts), _starvation(facts)]


def _reward_drop(facts: Facts) -> Alarm:
    rule = (
        f"The mean reward under the newest version lies more than {DROP_ERRORS:g} standard errors below that under the one before; "
        f"both with at least {LEAST_REWARDED} rewarded trajectories."
    )
    ripe = [one for one in facts.outcomes if one.looked_at >= LEAST_REWARDED]
    if len(ripe) < 2:
        detail = f"Versions with at least {LEAST_REWARDED} rewarded trajectories: {len(ripe)}. It takes two to compare."
        return Alarm("reward_drop", False, None, DROP_ERRORS, rule, detail, "Reward more of what the newest versions answer.")
    before, now = ripe[-2:]
    spread = (before.error() ** 2 + now.error() ** 2) ** 0.5
    drop = before.mean - now.mean
    value = drop / spread if spread else (0.0 if drop <= 0 else DROP_ERRORS + 1)
    detail = (
        f"Under {now.version}, {facts.made(now.version)}, the mean reward is {now.mean:.3g} over {now.looked_at} rewarded "
        f"trajectories; under {before.version}, with which it is compared, it is {before.mean:.3g} over {before.looked_at}. "
        f"{_apart(drop, spread)}"
    )
    todo = f"Compare the two; `headrace rollback {before.version}` puts the one before back into service."
    fires = value > DROP_ERRORS
    return Alarm("reward_drop", fires, value, DROP_ERRORS, rule, detail, todo if fires else "")


def _apart(drop: float, spread: float) -> str:
    """By how much the newer mean is lower, ``drop``, in words; ``spread`` is its standard error."""
    if not drop:
        return "The two are equal."
    errors = f", {abs(drop) / spread:.3g} standard errors" if spread else ""
    return f"The newer is {'lower' if drop > 0 else 'higher'} by {abs(drop):.3g}{errors}."


def _mismatch(versions: Sequence[PolicyVersion]) -> Alarm:
    rule = (
        "The median difference of engine's and trainer's log-probabilities in the last step that measured it is above "
        f"{MISMATCH_NATS:g} nats."
    )
    measured = [(one, one.metrics["logprob_diff_median"]) for one in versions if "logprob_diff_median" in one.metrics]
    if not measured:
        return Alarm("mismatch", False, None, MISMATCH_NATS, rule, "No step has measured it, or its figures are not yours to see.")
    last, value = measured[-1]
    since = len(versions) - 1 - list(versions).index(last)
    unmeasured = f" {since} made since had no token of the weights that their step began with." if since else ""
    beyond = list(takewhile(lambda found: not found[1] <= MISMATCH_NATS, reversed(measured)))
    if not beyond:
        return Alarm("mismatch", False, value, MISMATCH_NATS, rule, f"{last.version}: {value:.3g} nats.{unmeasured}")
    first = beyond[-1][0]
    detail = f"{last.version}: {value:.3g} nats. It is above since {first.version}, made {_moment(first.created_us)}.{unmeasured}"
    todo = "Compare model, precision and checksum of engine and trainer before more is trained, or return to a version before it."
    return Alarm("mismatch", True, value, MISMATCH_NATS, rule, detail, todo)


def _stale(facts: Facts) -> Alarm:
    rule = (
        f"Of the last hour's rewarded trajectories that wait to be trained on, more than {STALE_SHARE:.0%} were sampled more than "
        f"{STALE_VERSIONS} versions ago; at least {LEAST_WAITING} wait."
    )
    waiting, stale = facts.recent.get("waiting", 0), facts.recent.get("stale", 0)
    detail = (
        f"{stale} of {waiting} rewarded trajectories that wait, of those that began since {_moment(facts.since_us)}, were sampled "
        f"more than {STALE_VERSIONS} versions ago."
    )
    if waiting < LEAST_WAITING:
        return Alarm("stale", False, None, STALE_SHARE, rule, f"{detail} It takes {LEAST_WAITING} that wait to judge.")
    fires = stale / waiting > STALE_SHARE
    todo = "Reward sooner, shorten reward windows, or let the trainer take older ones (its `max_staleness`)." if fires else ""
    return Alarm("stale", fires, stale / waiting, STALE_SHARE, rule, detail, todo)


def _starvation(facts: Facts) -> Alarm:
    rule = f"At least {STARVED_TRAJECTORIES} trajectories began in the last hour, and none of them was trained on."
    count = {name: facts.recent.get(name, 0) for name in ("all", "eligible", "rewarded", "waiting", "trained")}
    num, since = count["all"], _moment(facts.since_us)
    if not num:
        return Alarm("starvation", False, None, STARVED_TRAJECTORIES, rule, f"No trajectory began since {since}.")
    detail = (
        f"{num} began since {since}: {count['eligible']} may train, {count['rewarded']} rewarded, {count['waiting']} wait for a "
        f"trainer, {count['trained']} trained on."
    )
    if count["trained"]:
        return Alarm("starvation", False, 0.0, STARVED_TRAJECTORIES, rule, detail)
    learned = [one.created_us for one in facts.versions if one.parent is not None]
    detail += f" The newest version that learned was made {_moment(learned[-1])}." if learned else " No version has learned yet."
    why, todo = _why_untrained(count)
    value = float(num) if num >= STARVED_TRAJECTORIES else None
    return Alarm("starvation", value is not None, value, STARVED_TRAJECTORIES, rule, f"{detail} {why}", todo)


def _why_untrained(count: dict[str, int]) -> tuple[str, str]:
    """Why nothing was trained, and what to do about it."""
    if not count["eligible"]:
        return (
            "None of them may train.",
            "Open one under Trajectories: each turn says why. Nothing trains without consent on record.",
        )
    if not count["rewarded"]:
        return (
            "None of them is rewarded.",
            "Send rewards (POST /v1/feedback), or let rules of the agent give them (headrace agents).",
        )
    if not count["waiting"]:
        return "None that may train is rewarded.", "Reward those that may train: Decision under Trajectories finds them."
    todo = "Look whether a trainer runs (headrace status), and whether its batches want more trajectories than wait."
    return "No step took those that wait.", todo


def _moment(time_us: int) -> str:
    return datetime.fromtimestamp(time_us / 1e6, UTC).strftime("%Y-%m-%d %H:%M UTC")
