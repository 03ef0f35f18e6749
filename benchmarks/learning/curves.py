"""A curve as SVG: one line for each series, smoothed, over the seconds of the run."""

from collections.abc import Mapping, Sequence
from html import escape
from statistics import fmean

Curve = Sequence[tuple[float, float]]

WIDTH, HEIGHT = 640, 320
LEFT, RIGHT, TOP, BOTTOM = 48, 16, 40, 36
N_POINTS = 80
N_LINES = 5
COLORS = ("#0072b2", "#d55e00", "#009e73")


def svg(title: str, curves: Mapping[str, Curve]) -> str:
    """`curves` is label -> points (s, value)."""
    smooth = {label: smoothed(curve) for label, curve in curves.items()}
    end_s = max(at_s for curve in smooth.values() for at_s, _ in curve)
    values = [value for curve in smooth.values() for _, value in curve]
    low, high = min(0.0, *values), max(1.0, *values)

    def x(at_s: float) -> float:
        return LEFT + at_s / end_s * (WIDTH - LEFT - RIGHT)

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - (value - low) / (high - low) * (HEIGHT - TOP - BOTTOM)

    parts = [_text(LEFT, 22, title, size=14)]
    for number in range(N_LINES):
        value = low + number / (N_LINES - 1) * (high - low)
        parts.append(_line([(LEFT, y(value)), (WIDTH - RIGHT, y(value))], "#dddddd", 1))
        parts.append(_text(LEFT - 6, y(value) + 4, f"{value:.2f}", anchor="end"))
        at_s = number / (N_LINES - 1) * end_s
        parts.append(_text(x(at_s), HEIGHT - 14, f"{at_s:.0f} s", anchor="middle"))
    for number, (label, curve) in enumerate(smooth.items()):
        color = COLORS[number % len(COLORS)]
        parts.append(_line([(x(at_s), y(value)) for at_s, value in curve], color, 2))
        parts.append(_text(WIDTH - RIGHT, 22 + 14 * number, label, anchor="end", color=color))
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}">'
    ground = f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>'
    return "\n".join([head, ground, *parts, "</svg>", ""])


def smoothed(curve: Curve) -> list[tuple[float, float]]:
    """At most `N_POINTS` means of neighbours."""
    width = max(1, len(curve) // N_POINTS)
    bins = [curve[start : start + width] for start in range(0, len(curve), width)]
    return [(fmean(at for at, _ in part), fmean(value for _, value in part)) for part in bins]


def _line(points: Sequence[tuple[float, float]], color: str, width: int) -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="{width}"/>'


def _text(
    x: float, y: float, words: str, *, anchor: str = "start", size: int = 11, color: str = "#333333"
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-family="sans-serif" font-size="{size}"'
        f' text-anchor="{anchor}" fill="{color}">{escape(words)}</text>'
    )
