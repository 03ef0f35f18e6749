"""What a run has recorded, reported and said: what its handle reads."""

import contextlib
from collections.abc import AsyncGenerator, Sequence
from typing import TYPE_CHECKING

from warren.connection.transport import Transport
from warren.metrics.plotting import PLOTTED, plot_rows
from warren.metrics.reading import MetricsReader
from warren.metrics.table import MetricRows
from warren.pending import pending
from warren.streams.logs import LogEntry, LogReader
from warren.streams.recording import Beginning, TrajectoryReader
from warren_schemas.http import RunView, TrajectoryView
from warren_schemas.ids import RunId

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RECONNECT_S = 600.0


class RunRecords:
    def __init__(self, transport: Transport, view: RunView) -> None:
        self._transport = transport
        self.view = view

    @property
    def id(self) -> RunId:
        return self.view.id

    def metrics(
        self,
        tags: Sequence[str] | None = None,
        *,
        after: int = 0,
        follow: bool = False,
        reconnect_s: float = RECONNECT_S,
    ) -> MetricRows:
        """What the run reported after each step and evaluation, oldest first, each row once.

        For `async for`, or as a whole: `await run.metrics().to_dataframe()`, `.to_list()`.
        `tags` chooses by patterns such as `reward/*`; `after` is the number of a row. Ends with what
        is there by now, or with `follow` when the run has ended. Raises `NotFound`, and
        `GatewayUnreachable` or `GatewayBusy` after `reconnect_s` without a connection.
        """
        reader = MetricsReader(
            self._transport,
            self.id,
            tags=tags,
            after=after,
            follow=follow,
            reconnect_s=reconnect_s,
        )
        return MetricRows(reader.read())

    async def logs(
        self, *, follow: bool = False, reconnect_s: float = RECONNECT_S
    ) -> AsyncGenerator[LogEntry]:
        """What all parts said while they worked for the run, oldest first, each line once.

        Where lines were left out, an entry says how many. Ends with what is there by now, or with `follow` when the
        run has ended. Raises `NotFound`, and `GatewayUnreachable` or `GatewayBusy` after `reconnect_s` without a
        connection.
        """
        reader = LogReader(self._transport, self.id, follow=follow, reconnect_s=reconnect_s)
        async with contextlib.aclosing(reader.read()) as entries:
            async for entry in entries:
                yield entry

    async def trajectories(
        self,
        *,
        from_: Beginning = None,
        limit: int | None = None,
        follow: bool = False,
        all_attempts: bool = False,
        reconnect_s: float = RECONNECT_S,
    ) -> AsyncGenerator[TrajectoryView]:
        """The episodes that the run has recorded and consumed, oldest first, each once.

        `from_` is an offset, a time, or a timedelta (so long ago). Ends where the run has read its
        own recording by now, or with `follow` when it has ended. With `all_attempts` every recorded
        ending comes as soon as it is recorded: also what was tried again (`superseded`), what was
        stored twice, and what is not decided yet. Raises `NotFound`, and `GatewayUnreachable` or
        `GatewayBusy` after `reconnect_s` without a connection.
        """
        reader = TrajectoryReader(
            self._transport,
            self.id,
            from_=from_,
            limit=limit,
            follow=follow,
            all_attempts=all_attempts,
            reconnect_s=reconnect_s,
        )
        async with contextlib.aclosing(reader.read()) as views:
            async for view in views:
                yield view

    @pending
    async def plot(self, tags: Sequence[str] = PLOTTED) -> "Figure":
        """A matplotlib figure of these metrics by step: one curve each, below each other.

        Raises `ConfigurationError` where matplotlib is missing, or no metric has such a tag.
        """
        return plot_rows(await self.metrics(tags).to_list(), self.view.name)
