"""What came of requests, as the store has it.

Invariant: an outcome that was delivered is kept for `KEPT_S` more, one that was not for `UNDELIVERED_S`.
"""

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Literal, cast

from sqlalchemy import delete, func, update
from sqlmodel import Session, col, select

from warren_gateway.access.caller import Viewer
from warren_gateway.coordinator.state.client import UNDELIVERED_S, Asked
from warren_gateway.store.tables import Model, RequestRow, Run
from warren_gateway.trainable.problems import NoSuchFuture
from warren_schemas.codec.wire import decode
from warren_schemas.events import RunState
from warren_schemas.http import QueuePlace
from warren_schemas.ids import ModelId, RunId, can_be_id
from warren_schemas.training import OpDone, OpFailed, OpResult

KEPT_S = 15 * 60.0


@dataclass(frozen=True, slots=True)
class Request:
    """A request, whatever came of it."""

    id: str
    model: ModelId
    run: RunId
    kind: str
    asked: Asked


@dataclass(frozen=True, slots=True)
class Done:
    request: Request
    outcome: OpDone


@dataclass(frozen=True, slots=True)
class Failed:
    request: Request
    category: Literal["user", "server"]
    reason: str


@dataclass(frozen=True, slots=True)
class Pending:
    request: Request
    reason: str
    n_ahead: int
    """Requests of the model that come before it."""
    is_moving: bool
    """Whether its model has all that it needs, so that only what comes before it holds it up."""


Places = Callable[[str], QueuePlace | None]
"""A run -> where it stands in the queue for trainers."""
Outcome = Done | Failed | Pending


def outcome_of(request: Request, result: OpResult) -> Done | Failed:
    """What its client is told."""
    outcome = result.outcome
    if isinstance(outcome, OpFailed):
        return Failed(request, "user" if outcome.is_users else "server", outcome.reason)
    return Done(request, outcome)


def read(viewer: Viewer, future: str, places: Places, session: Session) -> Outcome:
    """Raises `NoSuchFuture`."""
    query = (
        select(RequestRow, Run)
        .join(Model, col(Model.id) == col(RequestRow.model_id))
        .join(Run, col(Run.id) == col(Model.run_id))
        .where(col(RequestRow.id) == future)
    )
    found = session.exec(query).one_or_none() if can_be_id(future) else None
    if found is None or not viewer.owns(found[1].owner):
        raise NoSuchFuture(future)
    row, run = found
    asked = Asked.model_validate(row.asked)
    request = Request(row.id, ModelId(row.model_id), RunId(run.id), row.kind, asked)
    if row.outcome is None:
        state = RunState(run.state)
        place = None if state is RunState.PAUSED else places(run.id)
        is_moving = state is RunState.RUNNING and place is None and run.waiting_for is None
        return Pending(request, _reason(row, run, place), _n_ahead(session, row), is_moving)
    return outcome_of(request, cast("OpResult", decode(row.outcome).items[0]))


def mark_delivered(session: Session, futures: Collection[str], now_s: float) -> None:
    new = col(RequestRow.id).in_(list(futures)) & col(RequestRow.delivered_s).is_(None)
    session.exec(update(RequestRow).where(new).values(delivered_s=now_s))


def delete_old(session: Session, now_s: float) -> None:
    for column, age_s in ((RequestRow.delivered_s, KEPT_S), (RequestRow.done_s, UNDELIVERED_S)):
        session.exec(delete(RequestRow).where(col(column) < now_s - age_s))


def _n_ahead(session: Session, row: RequestRow) -> int:
    is_open = (col(RequestRow.model_id) == row.model_id) & col(RequestRow.done_s).is_(None)
    before = is_open & (col(RequestRow.number) < row.number)
    return session.exec(select(func.count()).select_from(RequestRow).where(before)).one()


def _reason(row: RequestRow, run: Run, place: QueuePlace | None) -> str:
    if place is not None:
        return f"the model is {place.position} in the queue for trainers: {place.reason}"
    if run.waiting_for is not None:
        return run.waiting_for
    match RunState(run.state):
        case RunState.QUEUED:
            return "the model waits for a trainer"
        case RunState.STARTING:
            return "a trainer loads the model"
        case RunState.PAUSED:
            return "the model is paused by its owner"
        case _:
            pass
    if row.op is not None:
        return "the trainer has it"
    if row.sequence is not None and time.time() - row.arrived_s > 1.0:
        return "it waits for its turn: ops before it are not applied, or have not come"
    return "it waits for its turn"
