"""Following a run: its events into a view, until it ends or Ctrl-C lets go of it.

Invariant: letting go never touches the run; whoever lets go is told how to come back.
"""

import asyncio
import math
import signal
from contextlib import aclosing
from dataclasses import replace

from warren.cli import codes
from warren.cli.display.notebook import NotebookView, in_notebook
from warren.cli.display.output import Output, is_terminal, make_output
from warren.cli.display.progress import Progress, started, with_queues
from warren.cli.display.summary import print_summary
from warren.cli.display.views import JsonView, PlainView, View
from warren.client import Client
from warren.errors import GatewayError, GatewayUnreachable
from warren.run import Run
from warren_schemas.events import RunOutcome, RunState
from warren_schemas.http import RunResult, RunView

QUEUES_EVERY_S = 2.0


async def follow(client: Client, run: Run, output: Output, *, as_json: bool) -> int:
    """Show the run from its start to its end; the exit code."""
    watching = asyncio.create_task(watch(client, run, make_view(output, as_json)), name="watch")
    if not await _finishes(watching):
        return _detached(run, output, as_json)
    await run.refresh()
    print_summary(run.view, output, as_json=as_json)
    return _exit_code(run.view)


def _exit_code(view: RunView) -> int:
    if view.state is not RunState.COMPLETED:
        return codes.FAILED
    is_vain = view.result and view.result.outcome is RunOutcome.NOTHING_LEARNED
    return codes.NOTHING_LEARNED if is_vain else codes.OK


async def _finishes(watching: "asyncio.Task[Progress]") -> bool:
    """Wait for it; False where Ctrl-C came first."""
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, watching.cancel)
    try:
        await asyncio.wait({watching})
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        watching.cancel()
    if watching.cancelled():
        return False
    watching.result()
    return True


async def watch(client: Client, run: Run, view: View) -> Progress:
    """Feed the view until the run's last event; the progress at that point."""
    watcher = _Watcher(client, run, view)
    with view:
        async with asyncio.TaskGroup() as tasks:
            polling = tasks.create_task(watcher.poll_queues(), name="poll queues")
            await watcher.read_events()
            polling.cancel()
    return watcher.progress


async def show(client: Client, run: Run) -> RunResult:
    """Show the run where Python is used: at a terminal, in a notebook, or as lines. Its result."""
    await watch(client, run, make_view(make_output(), as_json=False))
    return await run.result()


def make_view(output: Output, as_json: bool) -> View:
    if as_json:
        return JsonView()
    if in_notebook():
        return NotebookView()
    if not is_terminal():
        return PlainView(output)
    from warren.cli.display.live import LiveView
    from warren.cli.display.pretty import PrettyOutput

    assert isinstance(output, PrettyOutput)
    return LiveView(output.console)


class _Watcher:
    def __init__(self, client: Client, run: Run, view: View) -> None:
        self._client = client
        self._run = run
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
                self.progress = with_queues(self.progress, await self._client.queues())
            except (GatewayUnreachable, GatewayError):
                self.progress = with_queues(self.progress, ())
            self._view.show(self.progress)
            await asyncio.sleep(QUEUES_EVERY_S)

    def _on_connection(self, error: GatewayError | GatewayUnreachable | None) -> None:
        self.progress = replace(self.progress, lost=error.message if error else None)
        self._view.show(self.progress)


def _detached(run: Run, output: Output, as_json: bool) -> int:
    if not as_json:
        output.line()
        output.line(f"Detached; run {run.id} goes on.")
        output.line(f"  come back with   warren runs show {run.id} --follow")
        output.line(f"  stop it with     warren runs cancel {run.id}")
    return codes.INTERRUPTED
