"""Versions of what users upload, data sets and adapters, by reference."""

from typing import TypeVar

from sqlalchemy import ColumnElement
from sqlmodel import Session, and_, col, select

from warren_gateway.access.caller import Viewer
from warren_gateway.store.tables import AdapterRow, DatasetRow
from warren_schemas.datasets.names import referred

VersionT = TypeVar("VersionT", DatasetRow, AdapterRow)


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
