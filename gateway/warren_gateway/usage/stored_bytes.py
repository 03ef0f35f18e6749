"""What is kept for an owner: checkpoints of their runs, the policies that samplers can load, their data sets,
adapters and base models."""

from collections.abc import Iterator

from sqlalchemy import literal_column
from sqlmodel import Session, col, func, select

from warren_gateway.store.tables import (
    AdapterRow,
    BaseModelRow,
    Checkpoint,
    DatasetRow,
    Model,
    Run,
    SnapshotRow,
)

GIB = 1024**3

_HAS_POLICIES = col(Model.policy_bytes) > literal_column("0")
"""In the words of the index, so that models which store nothing, a thousand queued ones say, aren't read."""


def stored_bytes(session: Session, owner: str) -> int:
    """Of all that is this owner's."""
    n_bytes = sum(stored_by_run(session, owner).values())
    for table in (DatasetRow, AdapterRow, BaseModelRow):
        size = func.coalesce(func.sum(col(table.size_bytes)), 0)
        n_bytes += int(session.exec(select(size).where(col(table.owner) == owner)).one())
    return n_bytes


def stored_by_run(session: Session, owner: str | None = None) -> dict[str, int]:
    """Of the runs of this owner, or of all, that store something.

    Policies of one model are as large as its newest one, and those that have a name stay when they are not listed any
    more. What has two names is there once.
    """
    size = func.coalesce(func.sum(col(Checkpoint.size_bytes)), 0)
    checkpoints = (
        select(Model.run_id, size)
        .join(Checkpoint, col(Checkpoint.model_id) == col(Model.id))
        .join(Run, col(Run.id) == col(Model.run_id))
        .group_by(col(Model.run_id))
    )
    policies = (
        select(Model.run_id, Model.policy_bytes * func.json_array_length(Model.policies))
        .join(Run, col(Run.id) == col(Model.run_id))
        .where(_HAS_POLICIES)
    )
    found = dict[str, int]()
    for query in (checkpoints, policies):
        of_owner = query if owner is None else query.where(col(Run.owner) == owner)
        for run, n_bytes in session.exec(of_owner):
            found[run] = found.get(run, 0) + int(n_bytes)
    for run, n_bytes in _unlisted_snapshots(session, owner):
        found[run] = found.get(run, 0) + n_bytes
    return found


def _unlisted_snapshots(session: Session, owner: str | None) -> Iterator[tuple[str, int]]:
    named = (
        select(Model.run_id, SnapshotRow.version, SnapshotRow.size_bytes)
        .select_from(SnapshotRow)
        .join(Model, col(Model.id) == col(SnapshotRow.model_id))
        .join(Run, col(Run.id) == col(Model.run_id))
        .distinct()
    )
    rows = session.exec(named if owner is None else named.where(col(Run.owner) == owner)).all()
    runs = {run for run, _, _ in rows}
    models = session.exec(select(Model).where(col(Model.run_id).in_(runs)))
    listed = {model.run_id: {version for _, version in model.policies} for model in models}
    return ((run, size) for run, version, size in rows if version not in listed[run])
