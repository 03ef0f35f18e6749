"""Rows of metrics: one after the other, or all of them as a list or a dataframe."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import TYPE_CHECKING

from warren.metrics.needed import require
from warren.pending import pending
from warren_schemas.http import MetricsView

if TYPE_CHECKING:
    from pandas import DataFrame


class MetricRows(AsyncIterator[MetricsView]):
    """What `run.metrics()` gives: for `async for`, once."""

    def __init__(self, rows: AsyncGenerator[MetricsView]) -> None:
        self._rows = rows

    async def __anext__(self) -> MetricsView:
        return await anext(self._rows)

    async def aclose(self) -> None:
        """Stop reading; for `contextlib.aclosing`."""
        await self._rows.aclose()

    @pending
    async def to_list(self) -> list[MetricsView]:
        """All rows."""
        return [row async for row in self._rows]

    @pending
    async def to_dataframe(self) -> "DataFrame":
        """All rows as a pandas dataframe, a column for each tag; see `as_dataframe`."""
        require("pandas", "A dataframe")
        return as_dataframe([row async for row in self._rows])


def as_dataframe(rows: Sequence[MetricsView]) -> "DataFrame":
    """A row for each step and evaluation; what it did not report is NaN.

    Raises `ConfigurationError` where pandas is missing.
    """
    require("pandas", "A dataframe")
    from pandas import DataFrame

    return DataFrame([{**row.model_dump(exclude={"metrics"}), **row.metrics} for row in rows])
