"""Rows of metrics as a list and as a dataframe."""

import sys
from collections.abc import AsyncGenerator

import pytest
from tests.support.metrics_rows import ROWS

import warren
from warren.metrics.plotting import plot_rows
from warren.metrics.table import MetricRows, as_dataframe
from warren_schemas.http import MetricsView


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


@pytest.mark.parametrize("package", ["pandas", "matplotlib"])
def test_without_the_package_it_says_what_to_install(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(warren.ConfigurationError, match=r"pip install '\.\[notebook\]'"):
        as_dataframe(ROWS) if package == "pandas" else plot_rows(ROWS, "guess")
