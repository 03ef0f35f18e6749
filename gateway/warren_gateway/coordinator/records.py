"""What a coordinator reads from and writes to the store, besides its changes."""

from typing import cast

from sqlmodel import Session, col, select

from warren_broker.topology import train
from warren_gateway.coordinator.change import Change
from warren_gateway.coordinator.memory import Memory, remember
from warren_gateway.store.outbox import post
from warren_gateway.store.tables import GroupRow, Model, OpRow, Run
from warren_schemas.events import RunState
from warren_schemas.ids import RunId
from warren_schemas.training import Op
from warren_schemas.wire import decode


def unfinished(session: Session) -> list[RunId]:
    final = [state.value for state in RunState if state.is_final]
    rows = session.exec(select(Run.id).where(col(Run.state).not_in(final)))
    return [RunId(run) for run in rows]


def load(session: Session, run_id: RunId, now_s: float) -> Memory | None:
    """The memory of a run that goes on; None when it is over or was never there."""
    run = session.get(Run, run_id)
    if run is None or RunState(run.state).is_final:
        return None
    model = session.exec(select(Model).where(col(Model.run_id) == run_id)).one()
    is_open = (col(GroupRow.run_id) == run_id) & col(GroupRow.is_open)
    groups = session.exec(select(GroupRow).where(is_open).order_by(col(GroupRow.number)))
    return remember(run, model, list(groups), now_s)


def is_cancel_requested(session: Session, run_id: RunId) -> bool:
    run = session.get(Run, run_id)
    return run is not None and run.is_cancel_requested


def save(session: Session, memory: Memory, change: Change) -> None:
    change.apply(session, memory.run, memory.model)


def save_grant(session: Session, memory: Memory, change: Change) -> None:
    """Save the grant of a lease and send the new holder every op after the checkpoint."""
    change.apply(session, memory.run, memory.model)
    epoch = memory.lease.epoch
    newer = (col(OpRow.model_id) == memory.model) & (col(OpRow.number) > memory.checkpoint_op)
    for row in session.exec(select(OpRow).where(newer).order_by(col(OpRow.number))):
        op = cast("Op", decode(row.body).items[0])
        post(session, train(memory.model, epoch), op.model_copy(update={"epoch": epoch}))
