"""The newest figure under each tag, in the order in which one looks at them, and the best of those that policies are chosen by."""

from collections import Counter
from collections.abc import Iterator
from typing import Literal

from warren_schemas.http import MetricsView
from warren_schemas.metrics.registry import find, tensorboard_tag

_DIGITS = 4


class Newest:
    def __init__(self) -> None:
        self._figures: dict[str, tuple[float, int]] = {}
        """Value and step, by tag."""
        self._best: dict[str, tuple[float, int]] = {}
        """The same of the best ones, the earlier of equals."""
        self._n_rows: Counter[str] = Counter()

    @property
    def has_any(self) -> bool:
        return bool(self._figures)

    def note(self, row: MetricsView) -> None:
        """A later row."""
        self._figures |= {tag: (value, row.step) for tag, value in row.metrics.items()}
        for tag, value in row.metrics.items():
            if (line := find(tag)) is not None and line.best is not None:
                self._n_rows[tag] += 1
                if tag not in self._best or _is_better(value, self._best[tag][0], line.best):
                    self._best[tag] = (value, row.step)

    def lines(self) -> Iterator[tuple[str, str, str, str, str]]:
        """Tag, value, unit, step, and what the figure is of."""
        for tag in sorted(self._figures, key=tensorboard_tag):
            value, step = self._figures[tag]
            line = find(tag)
            unit, of = (line.unit, line.of) if line else ("", "")
            yield tag, figure(value), unit, str(step), of

    def best(self) -> Iterator[str]:
        """A sentence for each figure of which there are several to choose from."""
        for tag, (value, step) in self._best.items():
            if self._n_rows[tag] > 1 and (line := find(tag)) is not None:
                yield f"The {line.best} {tag} is {figure(value)}, after step {step}."


def _is_better(value: float, other: float, best: Literal["lowest", "highest"]) -> bool:
    return value < other if best == "lowest" else value > other


def figure(value: float) -> str:
    """A few digits; whole numbers as they are."""
    if value.is_integer() and abs(value) < 1e15:
        return f"{value:.0f}"
    return f"{value:.{_DIGITS}g}"
