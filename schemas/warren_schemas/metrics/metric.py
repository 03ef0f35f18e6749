"""What is said about a metric, and where it stands in TensorBoard."""

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Literal


@dataclass(frozen=True)
class Metric:
    tag: str
    """A word in braces stands for a name: `env/{metric}`."""
    unit: str
    of: str
    """What the figure is of: over which episodes, tokens or time, and how they are put together."""
    meaning: str
    good: str
    bad: str
    best: Literal["lowest", "highest"] | None = None
    """Which of its values policies are chosen by, of figures that are there for that."""

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        parts = re.split(r"(\{\w+\})", self.tag)
        return re.compile("".join(".+" if p.startswith("{") else re.escape(p) for p in parts))

    def fits(self, tag: str) -> bool:
        return self.pattern.fullmatch(tag) is not None


@dataclass(frozen=True)
class Section:
    """Metrics that a reader looks at together; sections stand in the order of their number."""

    number: int
    title: str
    about: str
    metrics: tuple[Metric, ...]
