"""The saved weights of models: checkpoints to go on from, snapshots to sample from.

Invariants: whoever may read the model's run may use them, its owner alone changes them; one that has expired does
not exist. The files of what is deleted go with the model's next checkpoint or policy, with its run, or as soon as
nothing more is kept of a model that is over.
"""

import time
from collections.abc import Collection

from sqlalchemy import ColumnElement, delete, exists
from sqlmodel import Session, col, or_, select

from warren_broker.topology import FILE_CLEANUP
from warren_gateway.access.caller import Viewer
from warren_gateway.access.shared_runs import may_read
from warren_gateway.runs.loading import runs_by_source, who_loads
from warren_gateway.store.outbox import post
from warren_gateway.store.tables import Checkpoint, Model, Run, ServedRow, SnapshotRow
from warren_gateway.trainable.owned import owned, readable
from warren_gateway.trainable.problems import NoSuchSavedWeights, SavedWeightsInUse
from warren_schemas.envelope import Envelope
from warren_schemas.events import RunState
from warren_schemas.http.trainable import (
    ModelCheckpoint,
    ModelSnapshot,
    SavedName,
    SavedWeights,
)
from warren_schemas.ids import ModelId, RunId, can_be_id
from warren_schemas.training import DeleteModel


def list_saved(session: Session, viewer: Viewer, model: str) -> SavedWeights:
    """Raises `NoSuchTrainable`."""
    _, row = readable(session, viewer, model)
    return saved_of(session, [row.id])[row.id]


def saved_of(session: Session, models: Collection[str]) -> dict[str, SavedWeights]:
    """Of each of these, oldest first."""
    saved = select(Checkpoint).where(col(Checkpoint.model_id).in_(models), is_kept(Checkpoint))
    named = select(SnapshotRow).where(col(SnapshotRow.model_id).in_(models), is_kept(SnapshotRow))
    checkpoints: dict[str, list[ModelCheckpoint]] = {model: [] for model in models}
    snapshots: dict[str, list[ModelSnapshot]] = {model: [] for model in models}
    for row in session.exec(saved.order_by(col(Checkpoint.op))):
        checkpoints[row.model_id].append(_checkpoint(row))
    for row in session.exec(named.order_by(col(SnapshotRow.created_s))):
        snapshots[row.model_id].append(_snapshot(row))
    return {
        model: SavedWeights(
            checkpoints=tuple(checkpoints[model]), snapshots=tuple(snapshots[model])
        )
        for model in models
    }


def resolve(session: Session, viewer: Viewer, path: str) -> tuple[Model, Checkpoint]:
    """The checkpoint `MODEL/NAME`, or `RUN/NAME` of any run. Raises `NoSuchSavedWeights`."""
    model, _, name = path.partition("/")
    row = _model(session, viewer, model)
    found = None if row is None else session.get(Checkpoint, (row.id, name))
    if row is None or found is None or _has_expired(found):
        raise NoSuchSavedWeights(f"there is no checkpoint {path}")
    return row, found


def resolved(session: Session, viewer: Viewer, path: str) -> ModelCheckpoint:
    """The same as a body. Raises `NoSuchSavedWeights`."""
    _, row = resolve(session, viewer, path)
    return _checkpoint(row)


def delete_saved(session: Session, viewer: Viewer, model: str, asked: SavedName) -> None:
    """Raises `NoSuchTrainable`, `NoSuchSavedWeights`, `SavedWeightsInUse`."""
    row = _own(session, viewer, model, asked)
    if isinstance(row, Checkpoint):
        _require_loaded(session, row)
    session.delete(row)
    session.flush()
    _drop_files(session, [row.model_id])


def _require_loaded(session: Session, row: Checkpoint) -> None:
    owner = session.exec(
        select(Run.owner)
        .join(Model, col(Model.run_id) == col(Run.id))
        .where(col(Model.id) == row.model_id)
    ).one()
    if (loading := who_loads(session, [row.url], owner)) is not None:
        raise SavedWeightsInUse(
            f"the checkpoint {row.model_id}/{row.name} is yet to be loaded by {loading}"
        )


def set_ttl(
    session: Session, viewer: Viewer, model: str, asked: SavedName, ttl_s: float | None
) -> ModelCheckpoint | ModelSnapshot:
    """From now. Raises `NoSuchTrainable`, `NoSuchSavedWeights`."""
    row = _own(session, viewer, model, asked)
    row.expires_s = None if ttl_s is None else time.time() + ttl_s
    session.add(row)
    return _checkpoint(row) if isinstance(row, Checkpoint) else _snapshot(row)


def delete_expired(session: Session, now_s: float) -> None:
    """What a model has yet to load goes after that."""
    wanted = list(runs_by_source(session))
    is_wanted = col(Checkpoint.url).in_(wanted)
    checkpoints = delete(Checkpoint).where(col(Checkpoint.expires_s) < now_s, ~is_wanted)
    snapshots = delete(SnapshotRow).where(col(SnapshotRow.expires_s) < now_s)
    gone = {
        *session.exec(checkpoints.returning(col(Checkpoint.model_id))).scalars(),
        *session.exec(snapshots.returning(col(SnapshotRow.model_id))).scalars(),
    }
    _drop_files(session, gone)


def _drop_files(session: Session, models: Collection[str]) -> None:
    """Of those of these that are over, and of which nothing is kept, served or sampled from any more."""
    is_over = col(Run.state).in_([state for state in RunState if state.is_final])
    over = select(Model).join(Run, col(Run.id) == col(Model.run_id))
    over = over.where(col(Model.id).in_(models), is_over, col(Run.coordinator).is_(None))
    for table in (Checkpoint, SnapshotRow):
        over = over.where(~exists().where(col(table.model_id) == col(Model.id)))
    over = over.where(~exists().where(col(ServedRow.run_id) == col(Model.run_id)))
    for model in session.exec(over).all():
        if not model.policies:
            envelope = Envelope(run=RunId(model.run_id))
            post(session, FILE_CLEANUP, DeleteModel(envelope=envelope, model=ModelId(model.id)))


def is_kept(table: type[Checkpoint] | type[SnapshotRow]) -> ColumnElement[bool]:
    """The condition of a query: it has not expired."""
    return or_(col(table.expires_s).is_(None), col(table.expires_s) > time.time())


def _model(session: Session, viewer: Viewer, model: str) -> Model | None:
    if not can_be_id(model):
        return None
    is_it = (col(Model.id) == model) | (col(Model.run_id) == model)
    row = session.exec(select(Model).where(is_it)).one_or_none()
    if row is None or not may_read(session, viewer, session.get_one(Run, row.run_id)):
        return None
    return row


def _own(
    session: Session, viewer: Viewer, model: str, asked: SavedName
) -> Checkpoint | SnapshotRow:
    _, row = owned(session, viewer, model)
    return find_saved(session, row, asked)


def find_saved(session: Session, model: Model, asked: SavedName) -> Checkpoint | SnapshotRow:
    """Raises `NoSuchSavedWeights`."""
    table = Checkpoint if asked.kind == "checkpoint" else SnapshotRow
    found = session.get(table, (model.id, asked.name))
    if found is None or _has_expired(found):
        raise NoSuchSavedWeights(f"there is no {asked.kind} {model.id}/{asked.name}")
    return found


def _has_expired(row: Checkpoint | SnapshotRow) -> bool:
    return row.expires_s is not None and row.expires_s <= time.time()


def _checkpoint(row: Checkpoint) -> ModelCheckpoint:
    return ModelCheckpoint(
        name=row.name,
        path=f"{row.model_id}/{row.name}",
        version=row.version,
        size_bytes=row.size_bytes,
        url=row.url,
        created_s=row.created_s,
        expires_s=row.expires_s,
        is_automatic=row.is_automatic,
        metadata=row.metadata_,
    )


def _snapshot(row: SnapshotRow) -> ModelSnapshot:
    return ModelSnapshot(
        name=row.name,
        model=f"{row.model_id}@{row.name}",
        version=row.version,
        size_bytes=row.size_bytes,
        url=row.url,
        created_s=row.created_s,
        expires_s=row.expires_s,
        metadata=row.metadata_,
    )
