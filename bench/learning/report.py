"""From runs to figures: means over seeds with 95 % intervals, a table for the page, a picture.

Intervals are Student's t over seeds; differences to the online arm are paired by seed, which share prompts and starting weights.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from bench.learning.arms import ARMS, ONLINE

Run = Mapping[str, Any]
Runs = Mapping[str, Mapping[str, Run]]
"""Arm → seed → run: `ticks`, `success`, `steps`, `numbers`."""

_T95: Final = {2: 12.71, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365, 9: 2.306, 10: 2.262}
_LAST: Final = 3
_PANELS: Final = {
    "online, frozen, shuffled, offline": ("online", "frozen", "rewards shuffled", "offline", "offline, uncorrected"),
    "stale data": ("online", "stale 2", "stale 2, uncorrected", "stale 8", "stale 8, uncorrected"),
    "tokens overwritten": ("online", "altered 5 %", "altered 20 %"),
    "rewards late": ("online", "delay 5", "delay 50", "delay 5, limit 2", "delay 50, limit 2"),
}


def summary(runs: Runs) -> dict[str, dict[str, float]]:
    """For each arm that ran: n, steps, success at the end and over all ticks, each with its half interval, and the differences."""
    found = {}
    for arm in (arm.name for arm in ARMS if arm.name in runs):
        own = runs[arm]
        end, area = ({seed: measure(run) for seed, run in own.items()} for measure in (at_the_end, over_all))
        row = {"n": float(len(own)), "steps": statistics.mean(run["steps"] for run in own.values())}
        row |= _told("end", list(end.values())) | _told("area", list(area.values()))
        if arm != ONLINE and ONLINE in runs:
            pairs = [seed for seed in own if seed in runs[ONLINE]]
            row |= _told("end_vs_online", [end[seed] - at_the_end(runs[ONLINE][seed]) for seed in pairs])
            row |= _told("area_vs_online", [area[seed] - over_all(runs[ONLINE][seed]) for seed in pairs])
        found[arm] = row
    return found


def at_the_end(run: Run) -> float:
    """Held-out success, the mean of the last three looks."""
    return float(statistics.mean(run["success"][-_LAST:]))


def over_all(run: Run) -> float:
    """Held-out success, the mean of all looks: how soon it was learned."""
    return float(statistics.mean(run["success"]))


def interval(values: Sequence[float]) -> float:
    """Half the 95 % interval of the mean; nan for a single value."""
    if len(values) < 2:
        return math.nan
    return _T95.get(len(values), 1.96) * statistics.stdev(values) / math.sqrt(len(values))


def table(found: Mapping[str, Mapping[str, float]]) -> list[str]:
    """The page's table, line by line."""
    lines = [
        "| arm | n | steps | success at the end | against online | over all ticks | against online |",
        "|---|---|---|---|---|---|---|",
    ]
    for arm, row in found.items():
        cells = [f"{row['n']:.0f}", f"{row['steps']:.0f}"]
        for name in ("end", "end_vs_online", "area", "area_vs_online"):
            sign = "+" if name.endswith("online") else ""
            cells.append(f"{row[name]:{sign}.2f} ± {row[f'{name}_half']:.2f}" if name in row else "")
        lines.append(f"| {arm} | " + " | ".join(cells) + " |")
    return lines


def draw(runs: Runs, path: Path) -> None:
    """Write a PNG: mean success by tick over the seeds, a band of 95 %."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, all_axes = pyplot.subplots(2, 2, figsize=(11, 7), sharex=True, sharey=True, layout="constrained")
    for axes, (title, arms) in zip(all_axes.flat, _PANELS.items(), strict=True):
        for arm in arms:
            if arm in runs:
                _line(axes, arm, list(runs[arm].values()))
        axes.set_title(title, fontsize=10)
        axes.set_ylim(-0.03, 1.03)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(fontsize=8, frameon=False)
    figure.supxlabel("batches sampled")
    figure.supylabel("held-out success")
    figure.savefig(path, dpi=130)


def _line(axes: Any, arm: str, own: Sequence[Run]) -> None:
    ticks, columns = own[0]["ticks"], list(zip(*(run["success"] for run in own), strict=True))
    means, halves = [statistics.mean(column) for column in columns], [interval(column) for column in columns]
    (line,) = axes.plot(ticks, means, label=arm, linestyle="--" if "uncorrected" in arm or "limit" in arm else "-")
    low, high = ([mean + sign * half for mean, half in zip(means, halves, strict=True)] for sign in (-1, 1))
    axes.fill_between(ticks, low, high, alpha=0.12, color=line.get_color())


def _told(name: str, values: Sequence[float]) -> dict[str, float]:
    return {name: round(statistics.mean(values), 4), f"{name}_half": round(interval(values), 4)}
