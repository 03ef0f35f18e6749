"""Rows of data sets, which never change, and which of them a task is.

Invariant: that follows from the run's seed, the split and the task's index alone, by the rule that env workers have for tasks
of their own: each epoch passes through all rows in an order of its own.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from warren_schemas.config import TrainConfig
from warren_schemas.datasets.order import Order
from warren_schemas.episode import TaskRef, TaskRow


class RowsOfSplit(Protocol):
    def __len__(self) -> int: ...

    def row(self, number: int) -> dict[str, Any]:
        """Counted from 0."""
        ...


Rows = Mapping[str, Mapping[str, RowsOfSplit]]
"""By the exact reference of the data set, and by split."""
OpenRows = Callable[[TrainConfig], Awaitable[Rows]]
"""Opens the data sets of a config."""


async def no_rows(_: TrainConfig) -> Rows:
    """Of a gateway that keeps no data sets."""
    return {}


def with_row(task: TaskRef, rows: RowsOfSplit) -> TaskRef:
    """The task with the row that it is."""
    number = position(task, rows)
    return task.model_copy(update={"row": TaskRow(number=number, values=rows.row(number))})


def position(task: TaskRef, rows: RowsOfSplit) -> int:
    """Which row it is."""
    order = Order(task.split, task.order_seed, task.shuffle, task.num_samples)
    return order.position(task.index, len(rows))
