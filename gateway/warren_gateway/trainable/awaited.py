"""The number of a client's ops that all later ones wait for.

Invariant: no limit of what waits refuses it, for without it none of the others ever leaves. There is one such op of a
model, so that what waits is bounded by the limit and one op.
"""

from sqlmodel import Session

from warren_gateway.coordinator.state.client import ClientState
from warren_gateway.store.tables import Run
from warren_gateway.trainable.owned import Locked


def awaited_number(session: Session, model: Locked) -> int:
    progress = session.get_one(Run, model.run).progress or {}
    return ClientState.model_validate(progress.get("client") or {}).next_sequence


def is_awaited(session: Session, model: Locked, sequence: int | None) -> bool:
    return sequence is not None and sequence == awaited_number(session, model)
