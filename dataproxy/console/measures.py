"""What the Learning page draws and compares: which measurements, under which titles, and what each says. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from atdp.versions import PolicyVersion
from dataproxy.client.watch_types import SUCCESS_ABOVE, VersionOutcome
from dataproxy.console.charts import Chart, line_chart

EARNED: Final[tuple[tuple[str, str, str, tuple[float, float] | None], ...]] = (
    ("Reward", "mean", "mean effective reward of the trajectories that the version answered last", None),
    ("Success", "success", f"share of them with a reward above {SUCCESS_ABOVE:g}", (0.0, 1.0)),
)
"""Title, name, what it says, and its axis where that is always the same."""
MEASURED: Final = (
    ("Reward in the batch", "reward_mean", "mean reward of what the version learned from"),
    ("Entropy", "entropy", "nats; falling to 0: the policy stops exploring"),
    ("KL, as sampled to before the step", "kl_behaviour_proximal", "mean log ratio per token"),
    ("KL to v000000", "kl_reference", "how far it has come from the model as it came"),
    ("Staleness", "staleness_mean", "versions that the trained tokens lay behind"),
    ("Mismatch, median", "logprob_diff_median", "nats between engine and trainer on the same weights; must stay near rounding"),
    ("Mismatch, 99th percentile", "logprob_diff_p99", "the same, of the worst one in a hundred tokens"),
    ("Clip fraction", "clip_fraction", "share of tokens whose gradient the clip cut off"),
    ("Limited fraction", "limited_fraction", "share of tokens whose weight for being sampled elsewhere was bounded"),
    ("Altered fraction", "altered_fraction", "share of tokens that redaction overwrote; they are not learned from"),
    ("Advantage, deviation", "advantage_std", "0: the batch teaches nothing"),
    ("Gradient norm", "grad_norm", "before it was scaled down"),
    ("Trained tokens a second", "trained_tokens_per_s", "of forward, backward and update"),
    ("Computed tokens a second", "computed_tokens_per_s", "shared beginnings count once"),
)
SWAPPED: Final = (
    ("Pause of the swap", "paused_s", "seconds that an engine held its requests; the longest of all engines"),
    ("In flight at the swap", "num_in_flight_before", "calls that were being answered when it began"),
    ("Aborted by the swap", "num_aborted", "calls that it ended"),
)
"""Measured when a version was first swapped in, by whatever swapped it in: no step has these."""
_TITLES = {name: (title, says) for title, name, says in (*MEASURED, *SWAPPED)}
Z95 = 1.96


@dataclass(slots=True, frozen=True)
class Compared:
    """One figure of two versions; ``difference`` is the second less the first."""

    title: str
    says: str
    first: float | None
    second: float | None

    @property
    def difference(self) -> float | None:
        """None where one of them was not measured."""
        return self.second - self.first if self.first is not None and self.second is not None else None


@dataclass(slots=True, frozen=True)
class Verdict:
    """The difference of two mean rewards, second less first, and its 95 % interval."""

    difference: float
    low: float
    high: float

    @property
    def word(self) -> str:
        """In one word of three."""
        return "better" if self.low > 0 else "worse" if self.high < 0 else "not told apart"


def charts_of(outcomes: Sequence[VersionOutcome], versions: Sequence[PolicyVersion]) -> list[Chart]:
    """A chart of each measure, those with a title first; what no version has is left out."""
    drawn = [
        line_chart(title, [(one.version, getattr(one, name)) for one in outcomes], says, axis) for title, name, says, axis in EARNED
    ]
    others = sorted({name for one in versions for name in one.metrics} - _TITLES.keys())
    for name in (*_TITLES, *others):
        title, says = _TITLES.get(name, (name.replace("_", " "), ""))
        drawn.append(line_chart(title, [(one.version, one.metrics[name]) for one in versions if name in one.metrics], says))
    return [chart for chart in drawn if chart is not None]


def measured(metrics: Mapping[str, float]) -> list[tuple[str, str, dict[str, float]]]:
    """(title, what it says, figures) of a version's step and of its swap; what has no figure is left out."""
    swap = {name: metrics[name] for _, name, _ in SWAPPED if name in metrics}
    step = {name: value for name, value in metrics.items() if name not in swap}
    parts = (
        ("Measured in its step", "", step),
        ("Measured when it was first swapped in", "By its publish, or by a promotion or a rollback if that came first.", swap),
    )
    return [part for part in parts if part[2]]


def compared(first: Mapping[str, float], second: Mapping[str, float]) -> list[Compared]:
    """Every figure that one of the two has."""
    names = [name for name in _TITLES if name in first or name in second]
    names += sorted((first.keys() | second.keys()) - _TITLES.keys())
    titled = ((name, *_TITLES.get(name, (name.replace("_", " "), ""))) for name in names)
    return [Compared(title, says, first.get(name), second.get(name)) for name, title, says in titled]


def verdict(first: VersionOutcome | None, second: VersionOutcome | None) -> Verdict | None:
    """By the normal approximation; None where one has fewer than two rewarded trajectories."""
    if first is None or second is None or min(first.looked_at, second.looked_at) < 2:
        return None
    difference = second.mean - first.mean
    wide = Z95 * (first.error() ** 2 + second.error() ** 2) ** 0.5
    return Verdict(difference, difference - wide, difference + wide)
