"""The demo's figures: intervals against published numbers, the JSON that programs read, and a verdict that admits failure."""

from pathlib import Path

import pytest

from deploy.demo.actors import JsonLines
from deploy.demo.curve import draw
from deploy.demo.intervals import wilson
from deploy.demo.plan import ArmResult, Exam, Share, Swap
from deploy.demo.run import require_promises
from deploy.demo.table import as_json, verdict
from deploy.errors import DemoFailed

ISSUE_FIELDS = {
    "before", "after", "n", "seconds", "swaps", "in_flight_at_swaps", "aborted", "events", "redactions", "trainable_share",
    "logprob_diff_median", "planted_found",
}  # fmt: skip


def result(arm: str = "online", after: int = 60, aborted: int = 0) -> ArmResult:
    return ArmResult(
        arm="control" if arm == "control" else "online", seconds=300.0,
        before=Exam(6, 120), after=Exam(after, 120), num_answers=640,
        swaps=[Swap("v000001", 16, aborted, 0.3, 0.001), Swap("v000002", 12, 0, 0.3, 0.003)],
        rewards={"v000000": (0.1, 32), "v000001": (0.4, 32)}, num_events=2000, redactions={"email": 40},
        trainable=Share(600, 640), trainable_personal=Share(180, 220), num_values_searched=190, planted_found=True,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"), [(0, 10, 0.0, 0.2775), (10, 20, 0.2993, 0.7007), (81, 263, 0.2553, 0.3662)]
)
def test_wilson_agrees_with_published_intervals(successes: int, n: int, low: float, high: float) -> None:
    assert wilson(successes, n) == pytest.approx((low, high), abs=1e-4)


def test_json_holds_every_promised_field_and_both_arms() -> None:
    body = as_json([result(), result("control", after=7)], seed=1, seconds=600.0)
    assert set(body) >= ISSUE_FIELDS
    assert (body["before"], body["after"], body["n"], body["swaps"], body["in_flight_at_swaps"]) == (0.05, 0.5, 120, 2, [16, 12])
    assert body["logprob_diff_median"] == pytest.approx(0.002)
    assert body["trainable_share"] == 0.9375
    assert (body["control_before"], body["control_after"]) == (0.05, pytest.approx(7 / 120))


def test_a_run_that_learned_too_little_says_so() -> None:
    assert "+0.45" in verdict([result()])
    assert "NOT" not in verdict([result()])
    assert "NOT reached" in verdict([result(after=20)])


def test_broken_promises_are_named() -> None:
    require_promises([result()])
    with pytest.raises(DemoFailed, match="aborted 1 requests"):
        require_promises([result(aborted=1)])
    found = result()
    found.num_values_found, found.places_found = 1, ["data/logs/gateway.log (raw)"]
    with pytest.raises(DemoFailed, match=r"1 personal values.*\n.*gateway\.log"):
        require_promises([found])
    blind = result()
    blind.planted_found = False
    with pytest.raises(DemoFailed, match="planted control"):
        require_promises([blind])


def test_the_curve_is_a_png(tmp_path: Path) -> None:
    path = draw([result(), result("control")], tmp_path / "curve.png")
    assert path.read_bytes().startswith(b"\x89PNG")


def test_json_lines_gives_whole_lines_only_and_each_once(tmp_path: Path) -> None:
    lines = JsonLines(tmp_path / "x.jsonl")
    assert lines.new() == []
    with lines.path.open("w") as file:
        file.write('{"a": 1}\n{"a": ')
        file.flush()
        assert lines.new() == [{"a": 1}]
        file.write("2}\n")
        file.flush()
        assert lines.new() == [{"a": 2}]
