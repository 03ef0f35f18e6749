"""Shares of what users upload by name: data sets, adapters, base models.

Invariants
- A share is of a name: of all its versions, later ones too. It ends with the last of them.
- It lets others read and use, never change: who may change asks `Viewer.owns`.
- Who may read is asked of the store each time, so unsharing acts at the next use.
"""

import time
from collections.abc import Sequence
from typing import TypeVar

from sqlalchemy import ColumnElement, exists
from sqlmodel import Session, and_, col, delete, or_, select, true

from warren_gateway.access.caller import Viewer
from warren_gateway.access.rows import require_user
from warren_gateway.access.shared_runs import EVERYBODY
from warren_gateway.datasets.versions import VersionT
from warren_gateway.store.tables import AdapterShareRow, BaseModelShareRow, DatasetShareRow

ShareT = TypeVar("ShareT", DatasetShareRow, AdapterShareRow, BaseModelShareRow)


def readable_by(table: type[VersionT], shares: type[ShareT], viewer: Viewer) -> ColumnElement[bool]:
    """The condition of a query: the viewer may read this version, which is complete."""
    is_shared = exists().where(
        and_(
            col(shares.owner) == col(table.owner),
            col(shares.name) == col(table.name),
            col(shares.user).in_([viewer.user, EVERYBODY]),
        )
    )
    is_seen = true() if viewer.sees_all else col(table.owner) == viewer.user
    return and_(col(table.is_complete), or_(is_seen, is_shared))


def shared_with(
    session: Session, shares: type[ShareT], viewer: Viewer, owner: str, name: str
) -> Sequence[str]:
    """Users, or `*`; told to those who may change that."""
    if not viewer.owns(owner):
        return ()
    query = select(shares.user).where(col(shares.owner) == owner, col(shares.name) == name)
    return session.exec(query.order_by(col(shares.user))).all()


def listed(
    session: Session, shares: type[ShareT], viewer: Viewer, most: int
) -> Sequence[DatasetShareRow | AdapterShareRow | BaseModelShareRow]:
    """Given by this user or to them, newest first; to an admin all."""
    query = select(shares)
    if not viewer.sees_all:
        is_given = col(shares.owner) == viewer.user
        query = query.where(is_given | col(shares.user).in_([viewer.user, EVERYBODY]))
    return session.exec(query.order_by(col(shares.created_s).desc()).limit(most)).all()


def share(session: Session, shares: type[ShareT], owner: str, name: str, user: str | None) -> None:
    """With this user, or with everybody. Again changes nothing. Raises `NoSuchUser`."""
    if user is not None:
        require_user(session, user)
    if session.get(shares, (owner, name, user or EVERYBODY)) is None:
        row = shares(owner=owner, name=name, user=user or EVERYBODY, created_s=time.time())
        session.add(row)
        session.flush()


def unshare(
    session: Session, shares: type[ShareT], owner: str, name: str, user: str | None
) -> None:
    found = session.get(shares, (owner, name, user or EVERYBODY))
    if found is not None:
        session.delete(found)
        session.flush()


def end_with_versions(
    session: Session, table: type[VersionT], shares: type[ShareT], owner: str, name: str
) -> None:
    """Once a name has no version, whoever uploads it anew shares it anew."""
    left = select(table).where(
        col(table.is_complete), col(table.owner) == owner, col(table.name) == name
    )
    if session.exec(left).first() is None:
        session.exec(delete(shares).where(col(shares.owner) == owner, col(shares.name) == name))
