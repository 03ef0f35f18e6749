"""Room for what a client wants to keep of its model.

Invariant: what is kept for an owner stays below their `stored_gib`, but for what is being saved while nobody knows
yet how large it is: of that there are `MOST_SAVING` at a time, and the one that they wait for (`awaited`).
"""

from sqlmodel import Session, col, func, select

from warren_gateway.budgets.budget import OverBudget
from warren_gateway.coordinator.state.client import Asked
from warren_gateway.store.tables import Checkpoint, RequestRow
from warren_gateway.trainable.awaited import is_awaited
from warren_gateway.trainable.owned import Locked
from warren_gateway.usage.limits import OwnerLimits
from warren_gateway.usage.space import lack_of_space
from warren_schemas.training import OpBody, PublishPolicy, Refused, SaveState

MOST_SAVING = 32
"""Requests of a model to save or to publish that have no outcome."""


def within_space(
    session: Session,
    model: Locked,
    op: OpBody,
    asked: Asked,
    sequence: int | None,
    limits: OwnerLimits,
) -> OpBody:
    """The op, or one that fails and says why in its place, so that later ones don't wait for it. Raises `OverBudget`."""
    if asked.name is None or not isinstance(op, SaveState | PublishPolicy):
        return op
    n_saving = _n_saving(session, model)
    if n_saving >= MOST_SAVING and not is_awaited(session, model, sequence):
        raise OverBudget(f"{n_saving} things of the model are being saved, and {MOST_SAVING} may")
    size = model.policy_bytes
    if isinstance(op, SaveState):
        size = 0 if _is_replaced(session, model, asked) else _checkpoint_bytes(session, model)
    reason = lack_of_space(session, model.owner, size * (n_saving + 1), limits)
    return op if reason is None else Refused(reason=reason)


def _n_saving(session: Session, model: Locked) -> int:
    is_open = (col(RequestRow.model_id) == model.id) & col(RequestRow.done_s).is_(None)
    saves = is_open & col(RequestRow.kind).in_(["save_state", "publish_policy"])
    return session.exec(select(func.count()).select_from(RequestRow).where(saves)).one()


def _is_replaced(session: Session, model: Locked, asked: Asked) -> bool:
    return asked.overwrite and session.get(Checkpoint, (model.id, asked.name)) is not None


def _checkpoint_bytes(session: Session, model: Locked) -> int:
    """As much as the newest one; 0 where there is none."""
    of_model = select(Checkpoint.size_bytes).where(col(Checkpoint.model_id) == model.id)
    return session.exec(of_model.order_by(col(Checkpoint.op).desc())).first() or 0
