"""A chart's axis and its room for labels: against coordinates worked out by hand."""

import math

import pytest

from dataproxy.console.charts import HEIGHT, WIDTH, Chart, line_chart

TOP, BOTTOM, RIGHT = 12, HEIGHT - 28, WIDTH - 12


def drawn(*values: float, axis: tuple[float, float] | None = None) -> Chart:
    chart = line_chart("x", [(f"v{i}", value) for i, value in enumerate(values)], axis=axis)
    assert chart is not None
    return chart


def test_the_axis_goes_from_the_least_value_to_the_greatest() -> None:
    chart = drawn(1.0, 3.0, math.nan, 2.0)
    assert chart.ticks == [(BOTTOM, "1"), ((TOP + BOTTOM) / 2, "2"), (TOP, "3")]
    assert [(dot.x, dot.y) for dot in chart.dots] == [(56, BOTTOM), (342, TOP), (RIGHT, (TOP + BOTTOM) / 2)]
    assert line_chart("x", [("v0", math.inf)]) is None


@pytest.mark.parametrize(
    ("value", "labels", "at"),
    [(0.6, ["0", "0.3", "0.6"], TOP), (-2.0, ["-2", "-1", "0"], BOTTOM), (0.0, ["0"], BOTTOM)],
)
def test_values_that_are_all_one_have_an_axis_from_zero_to_it(value: float, labels: list[str], at: float) -> None:
    for chart in (drawn(value), drawn(value, value)):
        assert [label for _, label in chart.ticks] == labels and {dot.y for dot in chart.dots} == {at}


def test_a_share_has_the_axis_of_shares() -> None:
    chart = drawn(0.5, 0.75, axis=(0.0, 1.0))
    assert [label for _, label in chart.ticks] == ["0", "0.5", "1"] and chart.dots[0].y == (TOP + BOTTOM) / 2


@pytest.mark.parametrize("values", [(9.54e-07, 1.5e-06), (-9.54e-07, -9.5e-08), (123_456_789.0, 2.0), (0.5, 0.6)])
def test_the_longest_label_has_room_left_of_the_axis(values: tuple[float, ...]) -> None:
    chart = drawn(*values)
    assert chart.left - 6 >= 7 * max(len(label) for _, label in chart.ticks)
    assert chart.dots[0].x == chart.left and chart.dots[-1].x == RIGHT
