"""Metrics as a figure: one curve for each tag, by step."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from warren.errors import ConfigurationError
from warren.metrics.needed import require
from warren_schemas.http import MetricsView

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PLOTTED = ("reward/mean", "evaluation/reward_mean")
"""What most people look at first."""
WIDTH_IN, CURVE_IN = 8.0, 2.4


def plot_rows(rows: Sequence[MetricsView], title: str) -> "Figure":
    """The curves below each other, in a figure that belongs to nobody else (no `pyplot`).

    Raises `ConfigurationError` where matplotlib is missing or there is nothing to draw.
    """
    require("matplotlib", "A plot")
    from matplotlib.figure import Figure

    tags = sorted({tag for row in rows for tag in row.metrics})
    if not tags:
        raise ConfigurationError(
            "There is nothing to plot",
            hint="No metric has such a tag (yet); run.metrics() shows what is there.",
        )
    _let_notebooks_draw()
    figure = Figure(figsize=(WIDTH_IN, CURVE_IN * len(tags)), layout="constrained")
    figure.suptitle(title)
    for place, tag in enumerate(tags, start=1):
        points = [(row.step, row.metrics[tag]) for row in rows if tag in row.metrics]
        axes = figure.add_subplot(len(tags), 1, place)
        axes.plot(
            [x for x, _ in points], [y for _, y in points], marker="." if _few(points) else ""
        )
        axes.set_ylabel(tag)
        axes.grid(visible=True, alpha=0.3)
        if place == len(tags):
            axes.set_xlabel("step")
    return figure


def _few(points: Sequence[object]) -> bool:
    """Lone points have no line to be seen by."""
    return len(points) < 20


def _let_notebooks_draw() -> None:
    """A kernel learns how to show a figure from pyplot, but only in the cell after its import."""
    from warren.display.notebook import in_notebook

    if in_notebook() and "matplotlib.pyplot" not in sys.modules:
        from IPython.core.getipython import get_ipython
        from IPython.core.pylabtools import select_figure_formats

        select_figure_formats(get_ipython(), ["png"])
