"""Data sets in the store: what a viewer may see of them, found by reference.

Invariant: what a viewer may not read does not exist.
"""

from sqlalchemy import ColumnElement
from sqlmodel import Session, col, select

from warren_gateway.access.caller import Viewer
from warren_gateway.datasets import shares
from warren_gateway.datasets.problems import NoSuchDataset
from warren_gateway.datasets.versions import find_version, owned_versions
from warren_gateway.store.tables import DatasetRow, DatasetShareRow
from warren_schemas.datasets.names import exact
from warren_schemas.http import DatasetKind, DatasetSplit, DatasetView

MOST_LISTED = 1000


def find(session: Session, viewer: Viewer, reference: str) -> DatasetRow:
    """The version that the reference means: the newest, unless it has a digest. Raises `NoSuchDataset`."""
    seen = readable_by(viewer)
    return find_version(session, DatasetRow, viewer, reference, seen=seen, missing=NoSuchDataset)


def owned(session: Session, viewer: Viewer, reference: str) -> list[DatasetRow]:
    """The versions that the reference means, all without a digest, locked; for who may change them.

    Raises `NoSuchDataset`.
    """
    return owned_versions(session, DatasetRow, viewer, reference, NoSuchDataset)


def listed(session: Session, viewer: Viewer) -> tuple[DatasetView, ...]:
    """All versions that the viewer may read, newest first."""
    newest = select(DatasetRow).where(readable_by(viewer)).order_by(col(DatasetRow.id).desc())
    rows = session.exec(newest.limit(MOST_LISTED)).all()
    return tuple(view(session, viewer, row) for row in rows)


def readable_by(viewer: Viewer) -> ColumnElement[bool]:
    """The condition of a query: the viewer may read this version, which is complete."""
    return shares.readable_by(DatasetRow, DatasetShareRow, viewer)


def view(session: Session, viewer: Viewer, row: DatasetRow) -> DatasetView:
    """With whom it is shared is told to those who may change that."""
    splits = splits_of(row)
    shared_with = shares.shared_with(session, DatasetShareRow, viewer, row.owner, row.name)
    return DatasetView(
        reference=exact(row.owner, row.name, row.digest),
        owner=row.owner,
        name=row.name,
        digest=row.digest,
        kind=DatasetKind(row.kind),
        splits=splits,
        size_bytes=row.size_bytes,
        n_rows=sum(split.n_rows for split in splits),
        created_s=row.created_s,
        shared_with=tuple(shared_with),
    )


def splits_of(row: DatasetRow) -> tuple[DatasetSplit, ...]:
    return tuple(DatasetSplit.model_validate(split) for split in row.splits)
