"""The demo's figures: intervals against published numbers, both arms in table and JSON, and a verdict that admits failure."""

import json
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from deploy.demo.actors import JsonLines
from deploy.demo.arm import user_arguments
from deploy.demo.curve import draw
from deploy.demo.intervals import wilson
from deploy.demo.plan import Answer, Arm, ArmResult, DemoPlan, Exam, Share, Swap
from deploy.demo.progress import Show
from deploy.demo.run import require_promises, run
from deploy.demo.table import as_json, verdict
from deploy.demo.task import Task
from deploy.errors import DemoFailed
from deploy.paths import Paths
from examples.triage.tickets import tickets
from examples.triage.user import parse_arguments

ISSUE_FIELDS = {
    "before", "after", "n", "seconds", "swaps", "in_flight_at_swaps", "aborted", "events", "redactions", "trainable_share",
    "logprob_diff_median", "planted_found",
}  # fmt: skip


def result(arm: str = "online", after: int = 60, aborted: int = 0) -> ArmResult:
    return ArmResult(
        arm="control" if arm == "control" else "online", seconds=300.0,
        before=Exam(6, 30, 120), after=Exam(after, 12, 120), num_answers=640, num_right=300, num_partial=200,
        swaps=[Swap("v000001", 16, aborted, 0.3, 0.001), Swap("v000002", 12, 0, 0.3, 0.003)],
        rewards={"v000000": (0.1, 32), "v000001": (0.4, 32)}, num_events=2000, redactions={"email": 40},
        trainable=Share(600, 640), trainable_personal=Share(180, 220), num_values_searched=190, planted_found=True,
    )  # fmt: skip


def plan(directory: Path, arms: tuple[Arm, ...] = ("online", "control")) -> DemoPlan:
    return DemoPlan(1, arms, directory, num_steps=12, num_held_out=80, keep=False)


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
    assert (body["partial_before"], body["partial_after"]) == (0.25, 0.1)
    assert (body["control_before"], body["control_after"]) == (0.05, pytest.approx(7 / 120))


def test_a_run_that_learned_too_little_says_so() -> None:
    assert "+0.45" in verdict([result()])
    assert "NOT" not in verdict([result()])
    assert "NOT reached" in verdict([result(after=20)])


def test_broken_promises_are_named(tmp_path: Path) -> None:
    asked = plan(tmp_path)
    require_promises(asked, [result()])
    with pytest.raises(DemoFailed, match="aborted 1 requests"):
        require_promises(asked, [result(aborted=1)])
    found = result()
    found.num_values_found, found.places_found = 1, ["data/logs/gateway.log (raw)"]
    with pytest.raises(DemoFailed, match=r"1 personal values.*\n.*gateway\.log"):
        require_promises(asked, [found])
    blind = result()
    blind.planted_found = False
    with pytest.raises(DemoFailed, match="planted control"):
        require_promises(asked, [blind])


def test_a_whole_run_that_rises_by_less_than_the_goal_is_refused(tmp_path: Path) -> None:
    asked, low = plan(tmp_path), result(after=41)
    with pytest.raises(DemoFailed, match=r"^online: held-out success rose by \+0\.29, less than the \+0\.30.*--seed"):
        require_promises(asked, [low, result("control")])
    require_promises(asked, [result(after=42), result("control", after=7)])  # by 0.30; the control need not rise
    require_promises(asked, [replace(low, before=None)])  # nothing to compare with


@pytest.mark.parametrize("less", [{"model": "tiny"}, {"num_steps": 5}, {"num_held_out": 8}, {"enough": 0.1}])
def test_a_run_that_was_asked_for_less_need_not_rise(tmp_path: Path, less: dict[str, object]) -> None:
    require_promises(replace(plan(tmp_path), **less), [result(after=6)])  # type: ignore[arg-type]


def test_both_arms_are_run_and_shown_side_by_side(tmp_path: Path) -> None:
    asked: list[tuple[Arm, ArmResult | None]] = []

    def arm_run(plan: DemoPlan, arm: Arm, show: Show, first: ArmResult | None) -> ArmResult:
        asked.append((arm, first))
        return replace(result(arm, after=60 if arm == "online" else 7), planted_found=False)

    def search(paths: Paths, result: ArmResult) -> None:
        assert paths.data_dir == tmp_path / "demo" / result.arm / "data"
        result.planted_found = True

    screen = StringIO()
    run(plan(tmp_path / "demo"), Console(file=screen, width=200), tmp_path / "found.json", arm_run, search)
    assert [arm for arm, _ in asked] == ["online", "control"]
    assert asked[0][1] is None and asked[1][1] is not None and asked[1][1].arm == "online"  # as many steps, the same first exam
    lines = {
        line.split("│")[1].strip(): [cell.strip() for cell in line.split("│")[2:4]]
        for line in screen.getvalue().splitlines()
        if "│" in line
    }
    assert lines["rise"] == ["+0.45", "+0.01"]
    assert lines["… partial credit alone, before"] == ["0.25", "0.25"] and lines["… partial credit alone, after"] == [
        "0.10",
        "0.10",
    ]
    assert lines["answers rewarded"] == 2 * ["640: 300 right, 200 with partial credit, 140 with none"]
    assert lines["planted control found"] == 2 * ["yes"]
    assert "With shuffled rewards it changed by +0.01." in screen.getvalue()
    assert [arm["arm"] for arm in json.loads((tmp_path / "found.json").read_text())["arms"]] == ["online", "control"]


@pytest.mark.parametrize("arm", ["online", "control"])
def test_the_user_of_the_control_arm_alone_deals_rewards_at_random(
    tmp_path: Path, arm: Arm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://x/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    told = parse_arguments(user_arguments(plan(tmp_path), arm, tmp_path / "answers.jsonl"))
    assert (told.shuffle, told.seed, told.delay_s) == (arm == "control", 1, [1.0, 3.0])


def test_an_answer_is_right_or_earns_partial_credit_or_nothing() -> None:
    ticket = tickets("train")[0]
    said = [f'{{"order": {ticket.order}}}', '{"order": 1}', "Hello"]
    lines = [{"ticket": ticket.id, "answer": text, "turns": [{"completion": text}]} for text in said]
    personal = bool(ticket.personal)
    assert Task().answers(lines) == [
        Answer(said[0], True, False, personal), Answer(said[1], False, True, personal), Answer(said[2], False, False, personal),
    ]  # fmt: skip


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
