"""A line of numbers as the coordinates of a small chart; the template draws it as SVG, without a script. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 640, 180
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 12, 12, 28
_DIGIT, _GAP = 7.5, 8
"""How wide a digit of a label is at most, and how far the label stands from the line."""


@dataclass(slots=True, frozen=True)
class Dot:
    """A value at its place."""

    x: float
    y: float
    label: str
    value: float


@dataclass(slots=True, frozen=True)
class Chart:
    """``says`` explains the title; ``ticks`` are (y, text) of horizontal lines; ``line`` is the ``points`` of a polyline."""

    title: str
    says: str
    dots: list[Dot]
    line: str
    ticks: list[tuple[float, str]]
    width: int = WIDTH
    height: int = HEIGHT
    left: int = _LEFT
    right: int = WIDTH - _RIGHT
    bottom: int = HEIGHT - _BOTTOM


def line_chart(
    title: str, points: Sequence[tuple[str, float]], says: str = "", axis: tuple[float, float] | None = None
) -> Chart | None:
    """``points`` are (label, value) in order, of which those without a finite value are left out; None where there is none.

    ``axis``: from where to where it goes; else from the least value to the greatest, or, where all are one, from 0 to that one.
    """
    points = [point for point in points if math.isfinite(point[1])]
    if not points:
        return None
    low, high = axis or _axis([value for _, value in points])

    def y_of(value: float) -> float:
        share = (high - value) / (high - low) if high > low else 1.0
        return round(_TOP + share * (HEIGHT - _TOP - _BOTTOM), 1)

    ticks = [(y_of(value), short(value)) for value in sorted({low, (low + high) / 2, high})]
    left = max(_LEFT, math.ceil(_GAP + _DIGIT * max(len(label) for _, label in ticks)))
    step = (WIDTH - left - _RIGHT) / max(len(points) - 1, 1)
    dots = [Dot(round(left + i * step, 1), y_of(value), label, value) for i, (label, value) in enumerate(points)]
    return Chart(title, says, dots, " ".join(f"{dot.x},{dot.y}" for dot in dots), ticks, left=left)


def _axis(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    return (low, high) if low < high else (min(low, 0.0), max(high, 0.0))


def short(value: float) -> str:
    """Three significant digits; of thousands and more the whole number."""
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.3g}"
