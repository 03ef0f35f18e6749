"""Whose a client's model is, and who may read it: as with the run that stands for it."""

from sqlmodel import Session, col, select

from warren_gateway.access.caller import Viewer
from warren_gateway.access.shared_runs import may_read
from warren_gateway.models.problems import NoSuchTrainable
from warren_gateway.store.tables import Model, Run
from warren_schemas.ids import can_be_id


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
    is_it = (col(Model.id) == model) | (col(Model.run_id) == model)
    row = session.exec(select(Model).where(is_it, col(Model.is_clients))).one_or_none()
    if row is None:
        raise NoSuchTrainable(model)
    run = session.get_one(Run, row.run_id, with_for_update=for_update or None)
    return run, row
