"""The newest ops of a client's model, to be looked at: open ones, and those whose outcome is still kept.

Invariant: whoever may not read the model's run sees none of them; looking counts as no delivery.
"""

from functools import partial
from typing import cast

from sqlalchemy import select as select_columns
from sqlmodel import Session, col

from warren_gateway.access.caller import Viewer
from warren_gateway.store.store import Store
from warren_gateway.store.tables import RequestRow
from warren_gateway.trainable.owned import readable
from warren_schemas.codec.wire import decode
from warren_schemas.http.model_ops import ModelOp
from warren_schemas.training import OpFailed, OpResult

_COLUMNS = (
    col(RequestRow.id), col(RequestRow.kind), col(RequestRow.op), col(RequestRow.arrived_s),
    col(RequestRow.done_s), col(RequestRow.outcome),
)  # fmt: skip


class RecentOps:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def of(self, viewer: Viewer, model: str, limit: int) -> tuple[ModelOp, ...]:
        """Newest first. Raises `NoSuchTrainable`, `StoreUnavailable`."""
        return await self._store.read(partial(_newest, viewer, model, limit))


def _newest(viewer: Viewer, model: str, limit: int, session: Session) -> tuple[ModelOp, ...]:
    _, row = readable(session, viewer, model)
    query = select_columns(*_COLUMNS).where(col(RequestRow.model_id) == row.id)
    found = session.connection().execute(query.order_by(col(RequestRow.number).desc()).limit(limit))
    return tuple(_shown(*columns) for columns in found)


def _shown(
    future: str,
    kind: str,
    op: int | None,
    arrived_s: float,
    done_s: float | None,
    told: bytes | None,
) -> ModelOp:
    shown = ModelOp(
        future=future,
        kind=kind,
        state="waiting" if op is None else "with_trainer",
        arrived_s=arrived_s,
        done_s=done_s,
    )
    if told is None:
        return shown
    outcome = cast("OpResult", decode(told).items[0]).outcome
    if isinstance(outcome, OpFailed):
        return shown.model_copy(update={"state": "failed", "reason": outcome.reason})
    return shown.model_copy(update={"state": "done", "metrics": outcome.metrics})
