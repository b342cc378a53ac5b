"""A line of numbers as the coordinates of a small chart; the template draws it as SVG, without a script. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 640, 180
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 12, 12, 28


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


def line_chart(title: str, points: Sequence[tuple[str, float]], says: str = "") -> Chart | None:
    """``points`` are (label, value) in order, of which those without a finite value are left out; None where there is none."""
    points = [point for point in points if math.isfinite(point[1])]
    if not points:
        return None
    values = [value for _, value in points]
    low, high = min(values), max(values)
    if low == high:
        low, high = low - 0.5, high + 0.5
    step = (WIDTH - _LEFT - _RIGHT) / max(len(points) - 1, 1)

    def y_of(value: float) -> float:
        return round(_TOP + (high - value) / (high - low) * (HEIGHT - _TOP - _BOTTOM), 1)

    dots = [Dot(round(_LEFT + i * step, 1), y_of(value), label, value) for i, (label, value) in enumerate(points)]
    ticks = [(y_of(value), short(value)) for value in (low, (low + high) / 2, high)]
    return Chart(title, says, dots, " ".join(f"{dot.x},{dot.y}" for dot in dots), ticks)


def short(value: float) -> str:
    """Three significant digits; of thousands and more the whole number."""
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.3g}"
