"""Following a run: its events into a view, until it ends or Ctrl-C lets go of it.

Invariant: letting go never touches the run, but one that ends with its client, where this is the client; whoever
lets go is told how to come back.
"""

import asyncio
import signal

from warren.cli import codes
from warren.client import Client
from warren.display.output import Output
from warren.display.progress import Progress
from warren.display.summary import print_summary
from warren.display.watching import make_view, watch
from warren.run import Run
from warren_schemas.events import RunOutcome, RunState
from warren_schemas.http import RunView


async def follow(
    client: Client, run: Run, output: Output, *, as_json: bool, is_own: bool = False
) -> int:
    """Show the run from its start to its end; the exit code. `is_own`: this process has submitted it."""
    watching = asyncio.create_task(
        watch(run, client.queues, make_view(output, as_json)), name="watch"
    )
    if not await _finishes(watching):
        if is_own and await _ends_with_us(run):
            return _cancelled(run, output, as_json)
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


async def _ends_with_us(run: Run) -> bool:
    """Save and cancel it, if its client's end is its own, and its owner has not changed that meanwhile."""
    if run.view.on_disconnect == "detach" or (await run.refresh()).on_disconnect == "detach":
        return False
    await run.cancel(save=True)
    return True


def _cancelled(run: Run, output: Output, as_json: bool) -> int:
    if not as_json:
        output.line()
        output.line(f"Run {run.id} is saved and cancelled.")
        output.line(f"  go on with   warren runs retry {run.id}")
    return codes.INTERRUPTED


def _detached(run: Run, output: Output, as_json: bool) -> int:
    if not as_json:
        output.line()
        output.line(f"Detached; run {run.id} goes on.")
        output.line(f"  come back with   warren runs show {run.id} --follow")
        output.line(f"  stop it with     warren runs cancel {run.id}")
    return codes.INTERRUPTED
