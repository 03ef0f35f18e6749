"""What a run's end means for who waits for it."""

from warren.errors import RunCancelled, RunFailed
from warren_schemas.events import RunState
from warren_schemas.http import RunResult, RunView


def outcome(view: RunView) -> RunResult:
    """The result of a run that has ended. Raises `RunFailed` or `RunCancelled`."""
    if view.state is RunState.COMPLETED:
        return view.result or RunResult()
    if view.state is RunState.CANCELLED:
        cancelled = RunCancelled(f"Run {view.id} was cancelled{_because(view)}")
        cancelled.run = view.id
        raise cancelled
    failed = RunFailed(
        f"Run {view.id} failed{_because(view)}",
        hint=f"`warren runs show {view.id} --follow` shows what happened before.",
    )
    failed.run = view.id
    raise failed


def _because(view: RunView) -> str:
    return f": {view.error}" if view.error else ""
