"""What Learning draws by step, and how sure a difference is: against numbers worked out by hand."""

import pytest

from atdp.versions import PolicyVersion, version_name
from dataproxy.client.watch_types import VersionOutcome
from dataproxy.console.measures import MEASURED, charts_of, compared, measured, verdict

STEPS = [
    PolicyVersion(version_name(i), None, "retired", i, "v", metrics={name: i + 0.5 for _, name, _ in MEASURED} | {"made_up": 1.0})
    for i in range(3)
]
OUTCOMES = [VersionOutcome(version_name(i), 40, 40, 0.1 * i, 0.4, 0.2 * i) for i in range(3)]


def test_every_measure_is_drawn_by_step_and_an_unknown_one_too() -> None:
    charts = charts_of(OUTCOMES, STEPS)
    titles = [chart.title for chart in charts]
    assert titles == ["Reward", "Success", *(title for title, _, _ in MEASURED), "made up"]
    for named in ("Entropy", "KL to v000000", "Staleness", "Mismatch, median", "Clip fraction", "Trained tokens a second"):
        chart = charts[titles.index(named)]
        assert [(dot.label, dot.value) for dot in chart.dots] == [("v000000", 0.5), ("v000001", 1.5), ("v000002", 2.5)], named


def test_success_is_drawn_as_the_share_that_it_is() -> None:
    (success,) = (chart for chart in charts_of(OUTCOMES[1:2], []) if chart.title == "Success")
    assert [label for _, label in success.ticks] == ["0", "0.5", "1"] and success.dots[0].value == 0.2


def test_what_was_not_measured_is_not_drawn() -> None:
    assert charts_of([], [PolicyVersion("v000000", None, "serving", 0, "v")]) == []


@pytest.mark.parametrize(("mean", "word"), [(0.4, "better"), (-0.4, "worse"), (0.1, "not told apart")])
def test_two_versions_differ_by_more_than_their_noise_or_not(mean: float, word: str) -> None:
    first, second = VersionOutcome("v000000", 16, 16, 0.0, 0.4, 0.0), VersionOutcome("v000001", 16, 16, mean, 0.4, 0.0)
    found = verdict(first, second)
    assert found is not None and found.word == word
    assert found.high - found.low == pytest.approx(2 * 1.96 * (2 * 0.1**2) ** 0.5)


def test_one_rewarded_trajectory_says_nothing_and_a_figure_of_one_alone_has_no_difference() -> None:
    one = VersionOutcome("v000000", 1, 1, 0.0, 0.0, 0.0)
    assert verdict(one, OUTCOMES[0]) is None and verdict(None, one) is None
    (figure,) = compared({"entropy": 1.0}, {})
    assert (figure.title, figure.first, figure.second, figure.difference) == ("Entropy", 1.0, None, None)


def test_what_a_swap_measured_is_not_called_a_steps() -> None:
    ((title, _, figures),) = measured({"paused_s": 0.2, "num_aborted": 0.0})
    assert title == "Measured when it was first swapped in" and figures == {"paused_s": 0.2, "num_aborted": 0.0}
    titles = {title: figures for title, _, figures in measured({"entropy": 1.0, "paused_s": 0.2})}
    assert titles == {"Measured in its step": {"entropy": 1.0}, "Measured when it was first swapped in": {"paused_s": 0.2}}
    assert measured({}) == []
