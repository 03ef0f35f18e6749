"""Whose run an id names.

Invariants: another owner's run does not exist; what can't be an id names no run, and is never asked
of the database, for PostgreSQL takes no text that holds NUL.
"""

from collections.abc import Collection
from itertools import islice

from sqlmodel import Session, col, select

from warren_gateway.store.tables import Run
from warren_schemas.ids import can_be_id

MOST_AT_ONCE = 1000
"""Parameters of one query; PostgreSQL takes 65,535, SQLite half of that."""


def owned_run(session: Session, owner: str, run: str, *, for_update: bool = False) -> Run | None:
    """The run of this id, if it is this owner's; on demand with a lock on its row."""
    if not can_be_id(run):
        return None
    row = session.get(Run, run, with_for_update=for_update or None)
    return row if row is not None and row.owner == owner else None


def owners_of(session: Session, runs: Collection[str]) -> dict[str, str]:
    """Of those of these runs that there are."""
    owners, left = dict[str, str](), filter(can_be_id, runs)
    while part := list(islice(left, MOST_AT_ONCE)):
        query = select(Run.id, Run.owner).where(col(Run.id).in_(part))
        owners.update(session.exec(query).all())
    return owners


def owned_runs(session: Session, owner: str, runs: Collection[str]) -> set[str]:
    """Those of these that are this owner's."""
    owned, left = set[str](), filter(can_be_id, runs)
    while part := list(islice(left, MOST_AT_ONCE)):
        query = select(Run.id).where(col(Run.owner) == owner, col(Run.id).in_(part))
        owned.update(session.exec(query))
    return owned
