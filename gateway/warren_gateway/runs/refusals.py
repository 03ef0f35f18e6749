"""Errors about runs and configs as HTTP answers."""

from warren_gateway.runs.changing import InvalidChange
from warren_gateway.runs.checkpoints import UnusableCheckpoint
from warren_gateway.runs.deleting import RunInUse
from warren_gateway.runs.owned import NoSuchRun
from warren_gateway.runs.service import KeyReused
from warren_gateway.runs.sources import UnusableSource
from warren_gateway.runs.steering import RunHasEnded, WrongState
from warren_schemas.http import Problem

RunProblem = (
    InvalidChange
    | KeyReused
    | NoSuchRun
    | RunHasEnded
    | RunInUse
    | UnusableCheckpoint
    | UnusableSource
    | WrongState
)
RUN_PROBLEMS = (
    InvalidChange, KeyReused, NoSuchRun, RunHasEnded, RunInUse, UnusableCheckpoint, UnusableSource, WrongState,
)  # fmt: skip


def of_runs(error: RunProblem) -> tuple[int, Problem]:
    """Status and body."""
    match error:
        case NoSuchRun():
            message, hint = f"There is no run {error}.", "`warren runs ls` lists yours."
            return 404, Problem(code="no_such_run", message=message, hint=hint)
        case RunHasEnded():
            message = f"Run {error.run} has ended already: it is {error.state}."
            return 409, Problem(code="run_has_ended", message=message)
        case WrongState():
            return 409, Problem(code="wrong_state", message=f"{error}.", hint=error.hint)
        case RunInUse():
            return 409, Problem(code="run_in_use", message=f"{error}.")
        case KeyReused():
            message = f"This idempotency key was already used for {error.run}, with another config."
            hint = "Use a new key for a new config."
            return 409, Problem(code="idempotency_key_reused", message=message, hint=hint)
        case InvalidChange() | UnusableSource() | UnusableCheckpoint():
            return 422, _of_config(error)


def _of_config(error: InvalidChange | UnusableSource | UnusableCheckpoint) -> Problem:
    message = "The config has 1 mistake."
    match error:
        case InvalidChange():
            n, details = len(error.lines), tuple(error.lines)
            message = f"The changed config has {n} mistake{'s' if n > 1 else ''}, and nothing was changed."
            hint = "docs/training.md says which limits can be changed while a run goes on."
        case UnusableSource():
            details, hint = (f"source.run: {error}",), "`warren runs ls` lists your runs."
        case UnusableCheckpoint():
            details = (f"resume_from: {error}",)
            hint = (
                "`warren runs ls` lists your runs, `warren checkpoints ls RUN` what one has saved."
            )
    return Problem(code="invalid_config", message=message, details=details, hint=hint)
