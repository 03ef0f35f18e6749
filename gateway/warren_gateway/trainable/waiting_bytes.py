"""Room for ops that wait before their trainer's log, by bytes.

Invariants
- Whoever is told to ask again (429) may get in: an op that waits now is going to leave.
- The number that all others wait for is always taken in (`awaited`).
- Where nothing leaves before that number has come, and nothing came for `SETTLED_S`, an op that finds no room fails in
  its place: a client that sends the first part of a batch last (Tinker's) would never send it.
"""

import time

from sqlmodel import Session, col, select

from warren_gateway.budgets.budget import OverBudget
from warren_gateway.store.tables import RequestRow
from warren_gateway.trainable.awaited import awaited_number
from warren_gateway.trainable.owned import Locked
from warren_schemas.training import Forward, ForwardBackward, OpBody, Refused

MOST_WAITING_BYTES = 128 * 1024 * 1024
"""Of requests of a model that are in no log yet; 16 times what the largest one has."""
SETTLED_S = 10.0
"""What was sent in the same moment, in whatever order, is here by then."""


def with_room(
    session: Session, model: Locked, op: OpBody, sequence: int | None, n_waiting: int, n_bytes: int
) -> OpBody:
    """The op, or one that fails and says why in its place. `n_waiting` bytes are there, and it has `n_bytes`.

    Raises `OverBudget` where there may be room later.
    """
    if n_waiting + n_bytes <= MOST_WAITING_BYTES:
        return op
    if sequence == (number := awaited_number(session, model)):
        return op
    if sequence is None or _is_moving(session, model, number):
        raise OverBudget(
            f"{n_waiting >> 20} MiB of ops of the model wait for the trainer, and"
            f" {MOST_WAITING_BYTES >> 20} MiB may"
        )
    if not isinstance(op, Forward | ForwardBackward):  # it is small
        return op
    return Refused(reason=_too_much(number), spoils_gradient=isinstance(op, ForwardBackward))


def _too_much(missing: int) -> str:
    return (
        f"{MOST_WAITING_BYTES >> 20} MiB of ops wait for request {missing}, which their client sends after them, and no"
        " more than that can be sent at once: split the data into several calls of forward_backward before the"
        " optim_step (their gradients add up)"
    )


def _is_moving(session: Session, model: Locked, number: int) -> bool:
    """Whether something waits for nothing but its turn, which `number` has, or has come a moment ago."""
    of_model = (col(RequestRow.model_id) == model.id) & col(RequestRow.done_s).is_(None)
    sequence, is_new = col(RequestRow.sequence), col(RequestRow.arrived_s) > time.time() - SETTLED_S
    moves = sequence.is_(None) | (sequence <= number) | (is_new & (RequestRow.kind != "refused"))
    waiting = of_model & col(RequestRow.op).is_(None) & moves
    return session.exec(select(RequestRow.id).where(waiting).limit(1)).first() is not None
