"""A model leaves a trainer that is drained: it is saved there, and another trainer takes it from that checkpoint.

Training goes on while it is saved, and what was applied after the checkpoint is applied again elsewhere, as after a
trainer's death. Invariants: the lease is given back only once a checkpoint of the moment in which the worker was seen to
be drained is known to be saved, or to have failed, in which case more is applied again; that says nothing about the
model, so it is not counted as one that trainers lose.
"""

from collections.abc import Callable, Sequence

from warren_gateway.coordinator.learning import checkpointing
from warren_gateway.coordinator.lease import trainer_lease
from warren_gateway.coordinator.state.coordinator import CoordinatorState
from warren_schemas.control import Heartbeat, WorkerRole

Alive = Callable[[WorkerRole | None], Sequence[Heartbeat]]


def move_if_drained(state: CoordinatorState, alive: Alive, *, is_still: bool) -> None:
    """To be called with every decision: the first one saves, one of the next gives the lease back. A run that is
    still (`stopping`) leaves the trainer by itself."""
    lease = state.lease
    if is_still or not _is_to_leave(state, alive(WorkerRole.TRAINER)):
        lease.leaves_after_op = None
        return
    if lease.leaves_after_op is None:
        checkpointing.checkpoint_if_new(state)
        marks = state.learning.checkpoints.marks
        lease.leaves_after_op = marks[-1].op if marks else 0
    if state.learning.ops.done >= lease.leaves_after_op:
        lease.leaves_after_op = None
        trainer_lease.leave(state)


def _is_to_leave(state: CoordinatorState, trainers: Sequence[Heartbeat]) -> bool:
    holder = state.lease.holder
    is_drained = any(beat.is_draining for beat in trainers if beat.worker == holder)
    return is_drained and state.lease.is_opened
