"""Whose a client's model is, and who may read it: as with the run that stands for it."""

from sqlalchemy import bindparam
from sqlmodel import Session, col, select

from warren_gateway.access.caller import Viewer
from warren_gateway.access.shared_runs import may_read
from warren_gateway.models.problems import NoSuchTrainable
from warren_gateway.store.tables import Model, Run
from warren_schemas.ids import can_be_id

_FOUND = (
    select(Run, Model)
    .join(Model, col(Model.run_id) == col(Run.id))
    .where((col(Model.id) == bindparam("its_id")) | (col(Model.run_id) == bindparam("its_id")))
    .where(col(Model.is_clients))
)
"""Made once: each op of a client asks so."""
_LOCKED = _FOUND.with_for_update(of=Run)


def owned(
    session: Session, viewer: Viewer, model: str, *, for_update: bool = False
) -> tuple[Run, Model]:
    """The model of this id, or of the run of this id, if it is this viewer's. Raises `NoSuchTrainable`."""
    run, row = _found(session, model, for_update=for_update)
    if not viewer.owns(run.owner):
        raise NoSuchTrainable(model)
    return run, row


def readable(session: Session, viewer: Viewer, model: str) -> tuple[Run, Model]:
    """The same of one that they may read. Raises `NoSuchTrainable`."""
    run, row = _found(session, model)
    if not may_read(session, viewer, run):
        raise NoSuchTrainable(model)
    return run, row


def _found(session: Session, model: str, *, for_update: bool = False) -> tuple[Run, Model]:
    if not can_be_id(model):
        raise NoSuchTrainable(model)
    found = session.exec(_LOCKED if for_update else _FOUND, params={"its_id": model}).one_or_none()
    if found is None:
        raise NoSuchTrainable(model)
    return found
