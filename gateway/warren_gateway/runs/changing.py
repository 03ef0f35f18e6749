"""What an owner changes of a run that goes on: its priority, and its limits.

Invariants
- What results is a config that could have been submitted: the same rules hold, and the same words tell of a mistake.
- The row's lock is held from the look at what the run has done to the change, and a coordinator takes no step and
  ends no training that it decided by older limits (`coordinator.run_leases.fence`). So limits that are accepted
  have their effect: training that has ended is not extended, and no step is taken beyond a limit.
- `limits_number` rises with every change, so that whoever has read the limits knows whether they are in force.
- `submitted` stays what it was: by it a repeated submission is known.
"""

import json
from collections.abc import Mapping

from pydantic import BaseModel, Field, JsonValue, ValidationError
from sqlalchemy import update
from sqlmodel import Session, col

from warren_gateway.access.caller import Viewer
from warren_gateway.runs.checkpoints import require_checkpoint
from warren_gateway.runs.newer_versions import readable_config
from warren_gateway.runs.steering import (
    WrongState,
    locked,
    post_run_changed,
    require_going,
    require_not_cancelled,
)
from warren_gateway.runs.submitting import require_allowed
from warren_gateway.stop_request import StopRequest
from warren_gateway.store.tables import JobRow, Run
from warren_schemas.config import TrainConfig
from warren_schemas.events import RunState
from warren_schemas.http import SetRun
from warren_schemas.text.explain import explain

FIXED = {
    "episode_attempts": "replays of the run's recording count its attempts by it",
}
"""Limits that stay as they were submitted, and why."""
OF_TRAINING = (
    "steps",
    "stop_at_reward",
    "warn_after_zero_variance_steps",
    "stop_after_zero_variance_steps",
    "stop_on",
)
"""Limits that have no effect once training has ended."""


class InvalidChange(Exception):
    """The config would not be valid; `lines` holds one sentence for each thing wrong."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__(lines)
        self.lines = lines


class _Steps(BaseModel):
    n_trained: int = 0


class _Learned(BaseModel):
    steps: _Steps = Field(default_factory=_Steps)


class _Done(BaseModel):
    """Of the coordinator's counters, what limits are held against."""

    learning: _Learned = Field(default_factory=_Learned)


def change(viewer: Viewer, run: str, body: SetRun, session: Session) -> Run:
    """From the next decision on; a run that has its trainer keeps it.

    Raises `NoSuchRun`, `RunHasEnded`, `WrongState`, `NotPermitted`, `InvalidChange`, `UnusableCheckpoint`.
    """
    row = locked(session, viewer, run)
    require_going(row)
    if body.priority is not None:
        require_allowed(viewer, body.priority)
        row.priority = body.priority
    if body.on_disconnect is not None:
        row.on_disconnect, row.client_lease_s, row.client_until_s = body.on_disconnect, None, None
    if body.limits:
        _set_limits(session, viewer, row, body.limits)
    return post_run_changed(session, row)


def _set_limits(
    session: Session, viewer: Viewer, row: Run, limits: Mapping[str, JsonValue]
) -> None:
    require_not_cancelled(row)
    before = readable_config(row)
    if before is None:
        why = f"Run {row.id} is of a newer gateway, and this one can't read its config"
        raise WrongState(why, "Ask that gateway to change it.")
    _require_changeable(before, limits)
    after = _changed(before, limits)
    if after == before:
        return
    _require_in_time(row, before, limits)
    _require_steps_left(session, viewer, row, before, after)
    row.submitted = row.submitted or row.config
    row.config = after.model_dump(mode="json")
    row.n_steps = after.limits.steps
    row.limits_number += 1
    of_run = col(JobRow.run_id) == row.id
    session.exec(update(JobRow).where(of_run).values(wait_s=after.limits.wait_s))


def _require_changeable(before: TrainConfig, limits: Mapping[str, JsonValue]) -> None:
    mistakes = [
        f"limits.{key}: stays as it was submitted, for {FIXED[key]}"
        for key in sorted(limits.keys() & FIXED.keys())
    ]
    if before.limits.steps and limits.get("steps") == 0:
        mistakes.append(
            "limits.steps: 0 is for runs that train nothing; `warren runs finish RUN` ends training now"
        )
    if mistakes:
        raise InvalidChange(mistakes)


def _changed(config: TrainConfig, limits: Mapping[str, JsonValue]) -> TrainConfig:
    """As strict as a body that is submitted."""
    written = config.model_dump(mode="json")
    written["limits"] |= limits
    try:
        return TrainConfig.model_validate_json(json.dumps(written), strict=True)
    except ValidationError as error:
        raise InvalidChange(explain(error, TrainConfig)) from error


def _require_in_time(row: Run, before: TrainConfig, limits: Mapping[str, JsonValue]) -> None:
    of_training = [f"limits.{key}" for key in OF_TRAINING if key in limits]
    if not of_training:
        return
    named = ", ".join(of_training)
    if before.limits.steps == 0:
        why = f"Run {row.id} takes no steps of reinforcement learning, so {named} can't be set"
        raise WrongState(why, "Submit a run that trains, from its checkpoint if it has one.")
    if row.state == RunState.FINISHING or row.stop_request == StopRequest.FINISH:
        why = f"Run {row.id} trains no more, so {named} can't be set"
        raise WrongState(
            why, "After its end a new run can go on from its checkpoint, with resume_from."
        )


def _require_steps_left(
    session: Session, viewer: Viewer, row: Run, before: TrainConfig, after: TrainConfig
) -> None:
    steps = after.limits.steps
    if steps == before.limits.steps:
        return
    if row.started_s is None:
        require_checkpoint(session, viewer, after)
    n_taken = _Done.model_validate(row.progress or {}).learning.steps.n_trained
    if steps < n_taken:
        why = f"Run {row.id} has taken {n_taken} steps already, more than limits.steps of {steps}"
        raise WrongState(why, f"`warren runs finish {row.id}` ends its training now.")
