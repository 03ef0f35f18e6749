"""Whose run an id names, and who may read it.

Invariants: what a viewer may not see does not exist; what can't be an id names no run, and is never asked
of the database, for PostgreSQL takes no text that holds NUL.
"""

from collections.abc import Collection
from itertools import islice

from sqlalchemy import ColumnElement
from sqlmodel import Session, col, or_, select, true

from warren_gateway.access.caller import Viewer
from warren_gateway.access.shared_runs import may_read, shared_with
from warren_gateway.store.tables import Run
from warren_schemas.ids import can_be_id

MOST_AT_ONCE = 1000
"""Parameters of one query; PostgreSQL takes 65,535, SQLite half of that."""


class NoSuchRun(LookupError):
    """There is no such run, or it belongs to somebody else."""


def owned_run(
    session: Session, viewer: Viewer, run: str, *, for_update: bool = False
) -> Run | None:
    """The run of this id, if it is this viewer's; on demand with a lock on its row."""
    if not can_be_id(run):
        return None
    row = session.get(Run, run, with_for_update=for_update or None)
    return row if row is not None and viewer.owns(row.owner) else None


def readable_run(session: Session, viewer: Viewer, run: str) -> Run | None:
    """The run of this id, if this viewer may read it: their own, or one that is shared with them."""
    row = session.get(Run, run) if can_be_id(run) else None
    return row if row is not None and may_read(session, viewer, row) else None


def owners_of(session: Session, runs: Collection[str]) -> dict[str, str]:
    """Of those of these runs that there are."""
    owners, left = dict[str, str](), filter(can_be_id, runs)
    while part := list(islice(left, MOST_AT_ONCE)):
        query = select(Run.id, Run.owner).where(col(Run.id).in_(part))
        owners.update(session.exec(query).all())
    return owners


def owned_runs(session: Session, viewer: Viewer, runs: Collection[str]) -> set[str]:
    """Those of these that are this viewer's."""
    owned, left = set[str](), filter(can_be_id, runs)
    while part := list(islice(left, MOST_AT_ONCE)):
        query = select(Run.id).where(seen_by(viewer), col(Run.id).in_(part))
        owned.update(session.exec(query))
    return owned


def seen_by(viewer: Viewer) -> ColumnElement[bool]:
    """The condition of a query that joins `Run`: it is this viewer's."""
    return true() if viewer.sees_all else col(Run.owner) == viewer.user


def read_by(viewer: Viewer) -> ColumnElement[bool]:
    """The condition of a query that joins `Run`: this viewer may read it."""
    return or_(seen_by(viewer), shared_with(viewer.user))
