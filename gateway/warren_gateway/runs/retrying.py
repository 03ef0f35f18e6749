"""Retrying a run: a new one with its config that goes on from its newest checkpoint.

A new run, not the old one again: whoever waits for the end of a run, replays it or goes on from it may count on
that end. Invariant: a run is retried once, whoever asks how often; its successor can be retried in turn.
"""

from sqlmodel import Session, col, select

from warren_gateway.access.caller import Viewer
from warren_gateway.runs.owned import NoSuchRun, owned_run
from warren_gateway.runs.steering import RunHasEnded, WrongState
from warren_gateway.store.tables import Checkpoint, Model, Run
from warren_schemas.config import TrainConfig
from warren_schemas.events import RunState
from warren_schemas.http import SubmitRun


def retrial(viewer: Viewer, run: str, session: Session) -> tuple[str, SubmitRun]:
    """Whose run it will be, and what is submitted. Raises `NoSuchRun`, `RunHasEnded`, `WrongState`."""
    row = owned_run(session, viewer, run)
    if row is None:
        raise NoSuchRun(run)
    state = RunState(row.state)
    if state is RunState.COMPLETED:
        raise RunHasEnded(run, state)
    if not state.is_final:
        why = f"Run {run} is {state}, and only one that failed or was cancelled can be retried"
        hint = f"`warren runs cancel {run} --save` ends it with a checkpoint to go on from."
        raise WrongState(why, hint)
    priority = row.priority if viewer.sees_all else min(row.priority, 0)
    key = f"retry-of-{run}"
    return row.owner, SubmitRun(
        config=_config(session, row), idempotency_key=key, priority=priority, sweep=row.sweep
    )


def _config(session: Session, row: Run) -> TrainConfig:
    """Where it has saved nothing it begins where that one began."""
    of_run = select(Checkpoint).join(Model, col(Model.id) == col(Checkpoint.model_id))
    has_saved = session.exec(of_run.where(col(Model.run_id) == row.id)).first() is not None
    resume = {"resume_from": {"run": row.id}} if has_saved else {}
    return TrainConfig.model_validate({**row.config, **resume})
