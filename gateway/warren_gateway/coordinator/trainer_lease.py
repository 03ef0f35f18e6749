"""The lease of the run's model: which trainer applies its ops.

Invariants: one holder per epoch; the epoch rises with every grant; a holder that is gone, says that
it no longer has the model, or does not open it in time loses the lease, and the next one gets the
newest checkpoint and every op after it. Whatever an old holder still says carries an old epoch.
"""

import math
from collections.abc import Sequence

from warren_broker.topology import trainer
from warren_gateway.coordinator.state import Lease, Memory
from warren_schemas.control import Heartbeat, HeldModel
from warren_schemas.envelope import Envelope
from warren_schemas.ids import WorkerId
from warren_schemas.training import CloseModel, OpenModel, is_full

SILENCE_S = 10.0
"""A holder that nobody has heard of for this long has lost the lease."""
LOOK_S = 2.0
"""Least time between two looks at a holder that is still opening the model."""
GRANTS_IN_VAIN = 5
"""A model that this many trainers in a row gave back without one new answer is broken itself."""
LOSSES_IN_VAIN = 20
"""The same of workers that vanished with it: machines are taken away, and that says little about a model."""
TAKING_S = 60.0
"""A live trainer has this long to take a grant: it lists the lease then, long before the model is
open. One that does not has never seen the grant."""


def watch(memory: Memory, trainers: Sequence[Heartbeat]) -> bool:
    """Take the lease back from a holder that lost it; True when somebody needs it now."""
    lease = memory.lease
    if lease.holder is None:
        return True
    beat = next((t for t in trainers if t.worker == lease.holder), None)
    held = HeldModel(model=memory.model, epoch=max(1, lease.epoch))
    if beat is not None and held in beat.models:
        lease.seen_s, lease.was_listed = memory.now_s, True
        return False
    if beat is not None and lease.was_listed:
        return revoke(memory)
    if memory.now_s - lease.seen_s <= (TAKING_S if beat is not None else SILENCE_S):
        return False
    memory.deaf_trainer = lease.holder if beat is not None else None
    if beat is None:
        memory.progress.n_grants_in_vain -= 1
        memory.progress.n_losses_in_vain += 1
    return revoke(memory)


def revoke(memory: Memory) -> bool:
    memory.lease.holder, memory.lease.is_opened = None, False
    memory.change.model |= {"holder": None, "is_opened": False}
    return True


def choose(memory: Memory, trainers: Sequence[Heartbeat]) -> WorkerId | None:
    """The trainer with most room that offers the base model; a full model needs an empty one.

    One that lives and did not take the last grant comes last: its orders may not reach it.
    """
    offering = [t for t in trainers if memory.spec.base_model in t.offers]
    alone = is_full(memory.spec)
    able = [t for t in offering if t.in_flight < (1 if alone else t.capacity)]

    def burden(trainer: Heartbeat) -> tuple[bool, float, str]:
        is_deaf = trainer.worker == memory.deaf_trainer
        return is_deaf, trainer.in_flight / trainer.capacity, trainer.worker

    return min(able, key=burden).worker if able else None


def grant(memory: Memory, worker: WorkerId) -> None:
    """Give the lease of the next epoch to this worker.

    The ops after the checkpoint are sent again by the actor, which reads them from the store.
    """
    progress = memory.progress
    progress.n_grants_in_vain += 1
    if memory.answered_op > progress.op_at_grant:
        progress.n_grants_in_vain, progress.op_at_grant = 1, memory.answered_op
        progress.n_losses_in_vain = 0
    memory.lease = Lease(memory.lease.epoch + 1, worker, is_opened=False, seen_s=memory.now_s)
    memory.done_op = memory.checkpoint_op
    memory.early_answers.clear()
    for pending in progress.pending:
        if pending.first_op > memory.checkpoint_op:
            pending.answers.clear()  # the new holder answers these ops again
    memory.change.model |= {
        "epoch": memory.lease.epoch,
        "holder": worker,
        "granted_s": memory.now_s,
        "is_opened": False,
        "done_op": memory.done_op,
    }
    item = OpenModel(
        envelope=Envelope(run=memory.run),
        model=memory.model,
        epoch=memory.lease.epoch,
        spec=memory.spec,
        checkpoint_url=memory.checkpoint_url,
        next_op=memory.checkpoint_op + 1,
        owner=memory.owner,
    )
    memory.change.send(trainer(worker), item)


def declined(memory: Memory) -> None:
    """The holder had no room after all; that says nothing about the model."""
    memory.progress.n_grants_in_vain -= 1
    revoke(memory)


def is_hopeless(memory: Memory) -> bool:
    """Whether yet another trainer would only die of the same op."""
    progress = memory.progress
    are_too_many = (
        progress.n_grants_in_vain >= GRANTS_IN_VAIN or progress.n_losses_in_vain >= LOSSES_IN_VAIN
    )
    is_at_a_loss = memory.lease.holder is None and memory.answered_op <= progress.op_at_grant
    return is_at_a_loss and are_too_many


def opened(memory: Memory) -> None:
    """The holder has answered that it has the model."""
    memory.lease.is_opened, memory.lease.seen_s = True, memory.now_s
    memory.change.model["is_opened"] = True


def give_up(memory: Memory) -> None:
    """The run is over: the holder may let go of the model."""
    memory.change.model["is_closed"] = True
    if memory.lease.holder is not None:
        item = CloseModel(
            envelope=Envelope(run=memory.run), model=memory.model, epoch=memory.lease.epoch
        )
        memory.change.send(trainer(memory.lease.holder), item)


def next_check_s(memory: Memory) -> float:
    """When to look again whether the holder has fallen silent."""
    if memory.lease.holder is None:
        return math.inf
    return max(memory.lease.seen_s + SILENCE_S, memory.now_s + LOOK_S)
