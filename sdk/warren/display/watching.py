"""Watching a run: its events into a view, until it ends.

It knows neither the client nor the handle of a run: a run that shows itself imports this.
"""

import asyncio
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Protocol

from warren.display.notebook import NotebookView, in_notebook
from warren.display.output import Output, is_terminal
from warren.display.progress import Progress, started, with_queues
from warren.display.views import JsonView, PlainView, View
from warren.errors import GatewayError, GatewayUnreachable
from warren.streams.events import ConnectionChanged, Event
from warren_schemas.http import QueueView, RunView

QUEUES_EVERY_S = 2.0


class Watched(Protocol):
    """A run, as far as it is watched."""

    @property
    def view(self) -> RunView: ...

    def events(
        self, *, reconnect_s: float, on_connection: ConnectionChanged | None
    ) -> AsyncGenerator[Event]: ...


ReadQueues = Callable[[], Awaitable[Sequence[QueueView]]]


async def watch(run: Watched, queues: ReadQueues, view: View) -> Progress:
    """Feed the view until the run's last event; the progress at that point."""
    watcher = _Watcher(run, queues, view)
    with view:
        async with asyncio.TaskGroup() as tasks:
            polling = tasks.create_task(watcher.poll_queues(), name="poll queues")
            await watcher.read_events()
            polling.cancel()
    return watcher.progress


def make_view(output: Output, as_json: bool) -> View:
    if as_json:
        return JsonView()
    if in_notebook():
        return NotebookView()
    if not is_terminal():
        return PlainView(output)
    from warren.display.live import LiveView
    from warren.display.pretty import PrettyOutput

    assert isinstance(output, PrettyOutput)
    return LiveView(output.console)


class _Watcher:
    def __init__(self, run: Watched, queues: ReadQueues, view: View) -> None:
        self._run = run
        self._queues = queues
        self._view = view
        self.progress = started(run.view)

    async def read_events(self) -> None:
        self._view.show(self.progress)
        events = self._run.events(reconnect_s=math.inf, on_connection=self._on_connection)
        async with aclosing(events):  # at once, also where showing fails: a reader may leave
            async for event in events:
                self.progress = self.progress.after(event)
                self._view.show(self.progress, event)

    async def poll_queues(self) -> None:
        while self._view.wants_queues:
            try:
                self.progress = with_queues(self.progress, await self._queues())
            except (GatewayUnreachable, GatewayError):
                self.progress = with_queues(self.progress, ())
            self._view.show(self.progress)
            await asyncio.sleep(QUEUES_EVERY_S)

    def _on_connection(self, error: GatewayError | GatewayUnreachable | None) -> None:
        self.progress = replace(self.progress, lost=error.message if error else None)
        self._view.show(self.progress)
