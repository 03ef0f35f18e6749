"""Which runs a viewer may read that are not theirs."""

from sqlalchemy import ColumnElement
from sqlmodel import Session, col, select

from warren_gateway.access.caller import Viewer
from warren_gateway.store.tables import Run, ShareRow
from warren_schemas.ids import can_be_id

EVERYBODY = "*"
"""With whom a run is shared: no user has this name."""


def may_read(session: Session, viewer: Viewer, run: Run) -> bool:
    """Their own, or one that is shared with them."""
    if viewer.owns(run.owner):
        return True
    return any(session.get(ShareRow, (run.id, name)) for name in (viewer.user, EVERYBODY))


def is_hidden(session: Session, viewer: Viewer, run: str) -> bool:
    """Whether there is this run, and this viewer may not read it."""
    row = session.get(Run, run) if can_be_id(run) else None
    return row is not None and not may_read(session, viewer, row)


def shared_with(user: str) -> ColumnElement[bool]:
    """The condition of a query that joins `Run`: it is somebody else's, and shared with this user."""
    shared = select(ShareRow.run_id).where(col(ShareRow.user).in_([user, EVERYBODY]))
    return (col(Run.owner) != user) & col(Run.id).in_(shared)
