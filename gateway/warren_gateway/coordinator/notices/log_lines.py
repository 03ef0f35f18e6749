"""What happens to a run, in its log: the lines that those of workers stand between.

Invariant: only what is committed is told.
"""

from typing import assert_never

from warren_broker.run_logs.run_logger import tell_run
from warren_broker.topology import run_events
from warren_gateway.coordinator.state.change import Change
from warren_schemas.events import (
    EvaluationCompleted,
    LogLevel,
    RunEvent,
    RunEventBody,
    RunState,
    StateChanged,
    StepCompleted,
    WaitingEnded,
    WaitingStarted,
    WarningRaised,
)
from warren_schemas.ids import RunId


def tell(run: RunId, change: Change) -> None:
    """All that this change tells those who follow the run."""
    for item in change.posts.get(run_events(run), ()):
        if isinstance(item, RunEvent):
            level, line = _line(item.body)
            tell_run(run, level, line)


def _line(body: RunEventBody) -> tuple[LogLevel, str]:
    match body:
        case StateChanged():
            level = LogLevel.ERROR if body.state is RunState.FAILED else LogLevel.INFO
            reason = f": {body.reason}" if body.reason else ""
            return level, f"the run is {body.state}{reason}"
        case WaitingStarted():
            return LogLevel.WARNING, f"it waits: {body.reason}"
        case WaitingEnded():
            return LogLevel.INFO, "it waits no longer"
        case StepCompleted():
            return LogLevel.INFO, f"{body.phase} step {body.step} of {body.n_steps} is done"
        case EvaluationCompleted():
            figures = f"reward {body.reward_mean:.4g} in {body.n_episodes} episodes"
            return LogLevel.INFO, f"the evaluation {body.when} step {body.step} is done: {figures}"
        case WarningRaised():
            return LogLevel.WARNING, body.message
        case _:
            assert_never(body)
