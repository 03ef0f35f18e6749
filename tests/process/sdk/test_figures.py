"""Rows of metrics as a figure. On a new machine matplotlib asks a program for the fonts."""

from pathlib import Path

import pytest
from tests.support.metrics_rows import ROWS

import warren
from warren.metrics.plotting import plot_rows


def test_a_figure_has_a_curve_for_each_tag(tmp_path: Path) -> None:
    figure = plot_rows(ROWS, "guess")
    assert [axes.get_ylabel() for axes in figure.axes] == ["loss/total", "reward/mean"]
    figure.savefig(str(tmp_path / "curves.png"))
    assert (tmp_path / "curves.png").stat().st_size > 0
    with pytest.raises(warren.ConfigurationError, match="nothing to plot"):
        plot_rows([], "guess")
