"""The end of the demo: one table of both arms, a plain sentence on what it shows, and the same as JSON."""

import statistics
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from deploy.demo.intervals import wilson
from deploy.demo.plan import GOAL, ArmResult, Exam, Share


def print_table(console: Console, results: list[ArmResult], pictures: list[Path]) -> None:
    """The table, rewards by version, and the verdict."""
    table = Table("", *(result.arm for result in results), title="What the demo found")
    for name, cells in _rows(results).items():
        table.add_row(name, *cells)
    console.print(table)
    rewards = Table("reward by version", *(result.arm for result in results))
    for version in sorted({version for result in results for version in result.rewards}):
        rewards.add_row(version, *(_reward(result, version) for result in results))
    console.print(rewards)
    for picture in pictures:
        console.print(f"Reward curve: {picture}", highlight=False, soft_wrap=True)
    console.print(f"[bold]{verdict(results)}[/bold]", highlight=False, soft_wrap=True)


def _rows(results: list[ArmResult]) -> dict[str, list[str]]:
    def row(cell: Any) -> list[str]:
        return [cell(result) for result in results]

    return {
        "held-out success before": row(lambda r: _exam(r.before)),
        "… partial credit alone, before": row(lambda r: _partial(r.before)),
        "held-out success after": row(lambda r: _exam(r.after)),
        "… partial credit alone, after": row(lambda r: _partial(r.after)),
        "rise": row(lambda r: f"{rise(r):+.2f}"),
        "answers rewarded": row(_answers),
        "swaps": row(lambda r: str(len(r.swaps))),
        "requests in flight at each": row(lambda r: " ".join(str(swap.num_in_flight) for swap in r.swaps) or "—"),
        "aborted by swaps": row(lambda r: str(num_aborted(r))),
        "paused per swap, median": row(lambda r: f"{_median([swap.paused_s for swap in r.swaps]):.2f} s"),
        "|engine − trainer| logprob, median": row(lambda r: f"{logprob_diff(r):.5f}"),
        "events stored": row(lambda r: str(r.num_events)),
        "values redacted": row(lambda r: _by_name(r.redactions)),
        "trainable share": row(lambda r: _share(r.trainable)),
        "… of tickets with personal details": row(lambda r: _share(r.trainable_personal)),
        "not trainable because": row(lambda r: _by_name(r.refused)),
        "personal values found at rest": row(lambda r: f"{r.num_values_found} of {r.num_values_searched}"),
        "planted control found": row(lambda r: "yes" if r.planted_found else "no"),
        "seconds": row(lambda r: f"{r.seconds:.0f}"),
    }


def rise(result: ArmResult) -> float:
    """Held-out success after, less before; 0 where an exam is missing."""
    if result.before is None or result.after is None:
        return 0.0
    return result.after.share - result.before.share


def num_aborted(result: ArmResult) -> int:
    """Requests that a swap aborted."""
    return sum(swap.num_aborted for swap in result.swaps)


def logprob_diff(result: ArmResult) -> float:
    """The median over steps of each step's median."""
    return _median([swap.logprob_diff_median for swap in result.swaps if swap.logprob_diff_median is not None])


def verdict(results: list[ArmResult]) -> str:
    """What the run shows, plainly, less than hoped included."""
    sentences = []
    for result in results:
        if result.arm == "online":
            reached = "reached" if rise(result) >= GOAL else "NOT reached"
            sentences.append(
                f"Held-out success rose by {rise(result):+.2f} by rewards alone (the goal of +{GOAL:.2f} was {reached})."
            )
        else:
            sentences.append(f"With shuffled rewards it changed by {rise(result):+.2f}.")
    return " ".join(sentences)


def as_json(results: list[ArmResult], seed: int, seconds: float) -> dict[str, Any]:
    """The online arm's figures at the top (the first arm's where it did not run), each arm in full under ``arms``."""
    main = next((result for result in results if result.arm == "online"), results[0])
    return {
        "seed": seed,
        "before": main.before.share if main.before else None,
        "after": main.after.share if main.after else None,
        "n": main.after.n if main.after else 0,
        "partial_before": main.before.partial_share if main.before else None,
        "partial_after": main.after.partial_share if main.after else None,
        "seconds": round(seconds, 1),
        "swaps": len(main.swaps),
        "in_flight_at_swaps": [swap.num_in_flight for swap in main.swaps],
        "aborted": num_aborted(main),
        "events": main.num_events,
        "redactions": main.redactions,
        "trainable_share": _ratio(main.trainable),
        "trainable_share_personal": _ratio(main.trainable_personal),
        "logprob_diff_median": logprob_diff(main),
        "planted_found": main.planted_found,
        "values_found": main.num_values_found,
        "control_before": next((r.before.share for r in results if r.arm == "control" and r.before), None),
        "control_after": next((r.after.share for r in results if r.arm == "control" and r.after), None),
        "arms": [msgspec.to_builtins(result) for result in results],
    }


def _exam(exam: Exam | None) -> str:
    if exam is None:
        return "—"
    low, high = wilson(exam.num_successes, exam.n)
    return f"{exam.share:.2f}  [{low:.2f}, {high:.2f}]  n={exam.n}"


def _partial(exam: Exam | None) -> str:
    return "—" if exam is None else f"{exam.partial_share:.2f}"


def _answers(result: ArmResult) -> str:
    num_none = result.num_answers - result.num_right - result.num_partial
    return f"{result.num_answers}: {result.num_right} right, {result.num_partial} with partial credit, {num_none} with none"


def _reward(result: ArmResult, version: str) -> str:
    mean, num = result.rewards.get(version, (0.0, 0))
    return f"{mean:+.3f}  n={num}" if num else "—"


def _share(share: Share) -> str:
    return f"{_ratio(share):.2f}  ({share.num_trainable} of {share.n})"


def _ratio(share: Share) -> float:
    return share.num_trainable / share.n if share.n else 0.0


def _median(values: list[float]) -> float:
    return statistics.median(values) if values else float("nan")


def _by_name(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {number}" for name, number in sorted(counts.items(), key=lambda item: -item[1])) or "none"
