"""The newest figure under each tag, in the order in which one looks at them."""

from collections.abc import Iterator

from warren_schemas.http import MetricsView
from warren_schemas.metrics.registry import find, tensorboard_tag

_DIGITS = 4


class Newest:
    def __init__(self) -> None:
        self._figures: dict[str, tuple[float, int]] = {}
        """Value and step, by tag."""

    @property
    def has_any(self) -> bool:
        return bool(self._figures)

    def note(self, row: MetricsView) -> None:
        """A later row."""
        self._figures |= {tag: (value, row.step) for tag, value in row.metrics.items()}

    def lines(self) -> Iterator[tuple[str, str, str, str, str]]:
        """Tag, value, unit, step, and what the figure is of."""
        for tag in sorted(self._figures, key=tensorboard_tag):
            value, step = self._figures[tag]
            line = find(tag)
            unit, of = (line.unit, line.of) if line else ("", "")
            yield tag, figure(value), unit, str(step), of


def figure(value: float) -> str:
    """A few digits; whole numbers as they are."""
    if value.is_integer() and abs(value) < 1e15:
        return f"{value:.0f}"
    return f"{value:.{_DIGITS}g}"
