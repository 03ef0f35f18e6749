"""Rows of metrics for `warren.sync`."""

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

from warren.metrics.table import as_dataframe
from warren_schemas.http import MetricsView

if TYPE_CHECKING:
    from pandas import DataFrame


class MetricRows(Iterator[MetricsView]):
    """See `warren.metrics.table.MetricRows`; for a loop, once."""

    def __init__(self, rows: Generator[MetricsView]) -> None:
        self._rows = rows

    def __next__(self) -> MetricsView:
        return next(self._rows)

    def close(self) -> None:
        """Stop reading; for `contextlib.closing`."""
        self._rows.close()

    def to_list(self) -> list[MetricsView]:
        """All rows."""
        return list(self._rows)

    def to_dataframe(self) -> "DataFrame":
        """All rows as a pandas dataframe, a column for each tag."""
        return as_dataframe(self.to_list())
