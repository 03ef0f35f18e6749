"""A copy of a run's curves as TensorBoard files on this machine, fetched from the gateway.

Invariant: a folder that holds a part of a run's curves already, whole or torn, is brought up to date and
no point is written twice.
"""

import asyncio
from contextlib import aclosing
from pathlib import Path

from warren.run import Run
from warren_schemas.events import RunState
from warren_schemas.http import MetricsView
from warren_schemas.tensorboard.about import About
from warren_schemas.tensorboard.files import Point, Record, TensorBoardFiles

ROWS_AT_ONCE = 256


class Mirror:
    def __init__(self, run: Run, logdir: Path) -> None:
        view = run.view
        self._run = run
        self._about = About(
            run=view.id, name=view.name, created_s=view.created_s, config=view.config
        )
        self.folder = logdir / self._about.folder
        self._files = TensorBoardFiles(self.folder)
        self._known: set[Point] = set()
        self._last = 0
        """Number of the newest row that was written."""

    async def catch_up(self) -> None:
        """Write what there is by now. Raises `OSError`, and the errors of `Run.metrics`."""
        self._known = await asyncio.to_thread(self._files.points)
        await asyncio.to_thread(self._files.introduce, self._about, self._known)
        batch: list[MetricsView] = []
        async with aclosing(self._run.metrics()) as rows:
            async for row in rows:
                batch.append(row)
                if len(batch) == ROWS_AT_ONCE:
                    await self._write(batch)
                    batch = []
        await self._write(batch)

    async def follow(self, *, reconnect_s: float) -> None:
        """Write what comes, until the run has ended, and then how it did."""
        rows = self._run.metrics(after=self._last, follow=True, reconnect_s=reconnect_s)
        async with aclosing(rows):
            async for row in rows:
                await self._write([row])
        view = await self._run.refresh()
        if view.state.is_final:
            await self._write_end(view.state, view.ended_s or view.created_s)

    async def close(self) -> None:
        await asyncio.to_thread(self._files.close)

    async def _write(self, rows: list[MetricsView]) -> None:
        records = [Record(row.at_s, row.step, row.metrics) for row in rows]
        await asyncio.to_thread(self._files.write, records, self._known)
        self._last = rows[-1].number if rows else self._last

    async def _write_end(self, state: RunState, at_s: float) -> None:
        end = Record(at_s, 0, end=state)
        await asyncio.to_thread(self._files.write, [end], self._known)
