"""What is kept of all models that a user may see, in pages.

Invariant: the newest comes first, whatever it is and whichever model it is of; a page costs a query and a count, and reads no run whole.
"""

from dataclasses import dataclass
from typing import Any, Literal, cast

from sqlalchemy import (
    ColumnElement,
    CompoundSelect,
    Row,
    Select,
    String,
    exists,
    func,
    literal,
    select,
    union_all,
)
from sqlmodel import Session, col

from warren_gateway.access.shared_runs import EVERYBODY
from warren_gateway.store.tables import Checkpoint, Model, Run, ShareRow, SnapshotRow
from warren_gateway.tinker.paths import name_of
from warren_gateway.trainable.saved import is_kept
from warren_schemas.events import RunState

KeptKind = Literal["checkpoint", "snapshot"]
_Values = tuple[str | None, bool, str, str, float, int, float | None, dict[str, Any] | None, str]
"""The key of a model's run, what there is to tell, and the model's id, by which those of one time are in order."""


@dataclass(frozen=True, slots=True)
class SavedWeightsListing:
    """One of them, and what its model is called by its client."""

    training: str
    is_public: bool
    kind: KeptKind
    name: str
    created_s: float
    size_bytes: int
    expires_s: float | None
    metadata: dict[str, Any] | None


def newest_kept(
    is_seen: ColumnElement[bool], limit: int, offset: int, session: Session
) -> tuple[list[SavedWeightsListing], int]:
    """And how many there are; `is_seen` is the condition of a query that joins `Run` and `Model`."""
    every = _every(is_seen).subquery()
    of = every.c
    newest = select(every).order_by(of.created_s.desc(), of.model_id, of.name, of.kind)
    connection = session.connection()
    rows = connection.execute(newest.limit(limit).offset(offset)).all()
    n = connection.execute(select(func.count()).select_from(every)).scalar_one()
    return [_listed(row) for row in rows], n


def _listed(row: Row[*_Values]) -> SavedWeightsListing:
    key, is_public, kind, name, created_s, n_bytes, expires_s, metadata, _ = row
    kept = cast("KeptKind", kind)
    return SavedWeightsListing(
        name_of(key), is_public, kept, name, created_s, n_bytes, expires_s, metadata
    )


def _every(is_seen: ColumnElement[bool]) -> CompoundSelect[*_Values]:
    """What its client has saved; of a run that is over, what was saved as it ended as well."""
    is_over = col(Run.state).in_([state for state in RunState if state.is_final])
    saved = _of("checkpoint", Checkpoint, is_seen)
    saved = saved.where(is_over | ~col(Checkpoint.is_automatic))
    return union_all(saved, _of("snapshot", SnapshotRow, is_seen))


def _of(
    kind: KeptKind, table: type[Checkpoint] | type[SnapshotRow], is_seen: ColumnElement[bool]
) -> Select[*_Values]:
    is_public = exists().where(col(ShareRow.run_id) == col(Run.id), col(ShareRow.user) == EVERYBODY)
    columns = (
        col(Run.idempotency_key),
        is_public.label("is_public"),
        literal(kind, String).label("kind"),
        col(table.name),
        col(table.created_s),
        col(table.size_bytes),
        col(table.expires_s),
        col(table.metadata_),
        col(table.model_id),
    )
    joined = select(*columns).join(Model, col(Model.id) == col(table.model_id))
    joined = joined.join(Run, col(Run.id) == col(Model.run_id))
    return joined.where(is_seen, is_kept(table))
