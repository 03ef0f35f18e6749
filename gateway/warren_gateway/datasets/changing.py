"""Deleting and sharing data sets, each in one transaction."""

from sqlmodel import Session, col, delete, select

from warren_gateway.access.caller import Viewer
from warren_gateway.datasets import shares, stored
from warren_gateway.datasets.problems import DatasetInUse
from warren_gateway.store.tables import DatasetRow, DatasetShareRow, Run, RunDatasetRow
from warren_schemas.datasets.names import exact
from warren_schemas.events import RunState
from warren_schemas.http import DatasetView, ShareDataset


def delete_versions(viewer: Viewer, reference: str, session: Session) -> dict[str, str]:
    """The references of those that nobody finds any more, by id; their rows go after their files. Raises `NoSuchDataset`, `DatasetInUse`."""
    rows = stored.owned(session, viewer, reference)
    final = [state.value for state in RunState if state.is_final]
    in_use = (
        select(Run)
        .join(RunDatasetRow, col(RunDatasetRow.run_id) == col(Run.id))
        .where(col(RunDatasetRow.dataset_id).in_([row.id for row in rows]))
        .where(col(Run.state).not_in(final))
    )
    if (run := session.exec(in_use).first()) is not None:
        who = run.id if viewer.owns(run.owner) else "a run of another user"
        raise DatasetInUse(f"{reference} is read by {who}, which is not over: wait for its end")
    gone = {row.id: exact(row.owner, row.name, row.digest) for row in rows}
    owner, name = rows[0].owner, rows[0].name
    for row in rows:
        discard(row)
    session.flush()
    shares.end_with_versions(session, DatasetRow, DatasetShareRow, owner, name)
    return gone


def discard(row: DatasetRow) -> None:
    """It does not exist, and counts as stored until its files are gone; an upload of its owner's sees to what is left."""
    row.is_complete, row.created_s = False, 0.0


def delete_row(dataset: str, session: Session) -> None:
    """Of a version whose files are gone."""
    session.exec(delete(DatasetRow).where(col(DatasetRow.id) == dataset))


def share(viewer: Viewer, wanted: ShareDataset, session: Session) -> DatasetView:
    """Raises `NoSuchDataset`, `NoSuchUser`."""
    row = stored.owned(session, viewer, wanted.dataset)[0]
    shares.share(session, DatasetShareRow, row.owner, row.name, wanted.user)
    return stored.view(session, viewer, row)


def unshare(viewer: Viewer, wanted: ShareDataset, session: Session) -> DatasetView:
    """Raises `NoSuchDataset`."""
    row = stored.owned(session, viewer, wanted.dataset)[0]
    shares.unshare(session, DatasetShareRow, row.owner, row.name, wanted.user)
    return stored.view(session, viewer, row)
