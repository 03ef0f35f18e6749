"""Rows of metrics as a dataframe and as a figure."""

import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

import warren
from warren.metrics.plotting import plot_rows
from warren.metrics.table import MetricRows, as_dataframe
from warren_schemas.events import Phase
from warren_schemas.http import MetricsView


def row(number: int, **metrics: float) -> MetricsView:
    return MetricsView(
        number=number, at_s=float(number), phase=Phase.TRAINING, step=number, version=number,
        n_episodes=number, metrics={tag.replace("_", "/"): v for tag, v in metrics.items()},
    )  # fmt: skip


ROWS = [row(1, reward_mean=0.25), row(2, reward_mean=0.5, loss_total=1.5)]


async def test_rows_as_a_list() -> None:
    async def read() -> AsyncGenerator[MetricsView]:
        for each in ROWS:
            yield each

    assert await MetricRows(read()).to_list() == ROWS
    assert [each async for each in MetricRows(read())] == ROWS
    assert len(await MetricRows(read()).to_dataframe()) == 2


def test_a_dataframe_has_a_column_for_each_tag() -> None:
    frame = as_dataframe(ROWS)
    assert list(frame["step"]) == [1, 2]
    assert list(frame["reward/mean"]) == [0.25, 0.5]
    assert list(frame["loss/total"])[1] == 1.5
    assert "metrics" not in frame.columns


def test_a_figure_has_a_curve_for_each_tag(tmp_path: Path) -> None:
    figure = plot_rows(ROWS, "guess")
    assert [axes.get_ylabel() for axes in figure.axes] == ["loss/total", "reward/mean"]
    figure.savefig(str(tmp_path / "curves.png"))
    assert (tmp_path / "curves.png").stat().st_size > 0
    with pytest.raises(warren.ConfigurationError, match="nothing to plot"):
        plot_rows([], "guess")


@pytest.mark.parametrize("package", ["pandas", "matplotlib"])
def test_without_the_package_it_says_what_to_install(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(warren.ConfigurationError, match=r"warren-rl\[notebook\]"):
        as_dataframe(ROWS) if package == "pandas" else plot_rows(ROWS, "guess")
