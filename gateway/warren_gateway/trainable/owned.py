"""Whose a client's model is, and who may read it: as with the run that stands for it."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import bindparam
from sqlalchemy import select as select_rows
from sqlmodel import Session, col, select

from warren_gateway.access.caller import Viewer
from warren_gateway.access.shared_runs import may_read
from warren_gateway.store.statements import table
from warren_gateway.store.tables import Model, Run
from warren_gateway.trainable.problems import NoSuchTrainable
from warren_schemas.ids import can_be_id

_FOUND = (
    select(Run, Model)
    .join(Model, col(Model.run_id) == col(Run.id))
    .where((col(Model.id) == bindparam("its_id")) | (col(Model.run_id) == bindparam("its_id")))
    .where(col(Model.is_clients))
)
_RUNS, _MODELS = table(Run), table(Model)
_LOCKED = (
    select_rows(
        _MODELS.c.id,
        _MODELS.c.run_id,
        _RUNS.c.owner,
        _RUNS.c.state,
        _RUNS.c.is_cancel_requested,
        _RUNS.c.stop_request,
        _RUNS.c.error,
        _RUNS.c.result,
        _RUNS.c.client_lease_s,
        _RUNS.c.client_until_s,
        _MODELS.c.policy_bytes,
    )
    .join(_RUNS, _MODELS.c.run_id == _RUNS.c.id)
    .where((_MODELS.c.id == bindparam("its_id")) | (_MODELS.c.run_id == bindparam("its_id")))
    .where(_MODELS.c.is_clients)
    .with_for_update(of=_RUNS)
)
"""Made once: each op of a client asks so. What configures a run, and how far it is, takes long to read."""


@dataclass(frozen=True, slots=True)
class Locked:
    """What an op must know of its model and its run, which is locked until the transaction ends."""

    id: str
    run: str
    owner: str
    state: str
    is_cancel_requested: bool
    stop_request: str | None
    error: str | None
    result: dict[str, Any] | None
    client_lease_s: float | None
    client_until_s: float | None
    policy_bytes: int


def owned(session: Session, viewer: Viewer, model: str) -> tuple[Run, Model]:
    """The model of this id, or of the run of this id, if it is this viewer's. Raises `NoSuchTrainable`."""
    run, row = _found(session, model)
    if not viewer.owns(run.owner):
        raise NoSuchTrainable(model)
    return run, row


def locked(session: Session, viewer: Viewer, model: str) -> Locked:
    """The same, as it is in the store. Raises `NoSuchTrainable`."""
    if not can_be_id(model):
        raise NoSuchTrainable(model)
    found = session.connection().execute(_LOCKED, {"its_id": model}).one_or_none()
    if found is None or not viewer.owns(found.owner):
        raise NoSuchTrainable(model)
    return Locked(*found)


def readable(session: Session, viewer: Viewer, model: str) -> tuple[Run, Model]:
    """The same of one that they may read. Raises `NoSuchTrainable`."""
    run, row = _found(session, model)
    if not may_read(session, viewer, run):
        raise NoSuchTrainable(model)
    return run, row


def _found(session: Session, model: str) -> tuple[Run, Model]:
    if not can_be_id(model):
        raise NoSuchTrainable(model)
    found = session.exec(_FOUND, params={"its_id": model}).one_or_none()
    if found is None:
        raise NoSuchTrainable(model)
    return found
