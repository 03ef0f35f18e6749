"""Versions of what users upload (data sets, adapters, base models) by reference."""

from typing import TypeVar

from sqlalchemy import ColumnElement
from sqlmodel import Session, and_, col, select

from warren_gateway.access.caller import Viewer
from warren_gateway.store.tables import AdapterRow, BaseModelRow, DatasetRow
from warren_schemas.datasets.names import referred

VersionT = TypeVar("VersionT", DatasetRow, AdapterRow, BaseModelRow)


def meant_by(table: type[VersionT], viewer: Viewer, reference: str) -> ColumnElement[bool]:
    """The condition of a query: the reference, said by this viewer, means this version, or one of these."""
    wanted = referred(reference)
    return and_(
        col(table.owner) == (wanted.owner or viewer.user),
        col(table.name) == wanted.name,
        col(table.digest).startswith(wanted.digest, autoescape=True),
    )


def find_version(
    session: Session,
    table: type[VersionT],
    viewer: Viewer,
    reference: str,
    *,
    seen: ColumnElement[bool],
    missing: type[LookupError],
) -> VersionT:
    """The version that the reference means, of those that are `seen`: the newest, unless it has a digest.

    Raises `missing`, also where several versions begin with the digest.
    """
    query = select(table).where(seen, meant_by(table, viewer, reference))
    newest = query.order_by(col(table.created_s).desc(), col(table.id).desc())
    found = session.exec(newest.limit(2)).all()
    if not found:
        raise missing(reference)
    if referred(reference).digest and len({row.digest for row in found}) > 1:
        raise missing(f"{reference} alone: several versions begin so; give more of the digest")
    return found[0]


def find_for_use(
    session: Session,
    table: type[VersionT],
    viewer: Viewer,
    reference: str,
    *,
    seen: ColumnElement[bool],
    missing: type[LookupError],
) -> VersionT:
    """The same, locked, so that nobody deletes it before it is said to be used. Raises `missing`."""
    row = find_version(session, table, viewer, reference, seen=seen, missing=missing)
    locked = session.get(table, row.id, with_for_update=True, populate_existing=True)
    if locked is None or not locked.is_complete:  # deleted a moment ago
        raise missing(reference)
    return locked


def owned_versions(
    session: Session,
    table: type[VersionT],
    viewer: Viewer,
    reference: str,
    missing: type[LookupError],
) -> list[VersionT]:
    """Those that the reference means, all without a digest, the newest first, locked; for who may change them.

    Raises `missing`.
    """
    owner = referred(reference).owner or viewer.user
    query = select(table).where(col(table.is_complete), meant_by(table, viewer, reference))
    newest = query.order_by(col(table.created_s).desc(), col(table.id).desc())
    rows = list(session.exec(newest.with_for_update())) if viewer.owns(owner) else []
    if not rows:
        raise missing(reference)
    return rows
