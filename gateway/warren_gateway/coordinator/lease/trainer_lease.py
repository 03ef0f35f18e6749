"""The lease of the run's model: which trainer applies its ops.

Invariants: one holder per epoch; the epoch rises with every grant; a holder that is gone, says that
it no longer has the model, or does not open it in time loses the lease, and the next one gets the
newest checkpoint and every op after it. Whatever an old holder still says carries an old epoch.
A trainer that is ahead of the store, which then lost its newest changes, loses the lease too, and the
epoch goes beyond what it has; where samplers may have weights that the log no longer leads to, the run
ends, for their versions would come again with other weights.
"""

import logging
import math
from collections.abc import Sequence

from warren_broker.topology import trainer
from warren_gateway.coordinator.learning import op_log
from warren_gateway.coordinator.state.coordinator import CoordinatorState
from warren_gateway.coordinator.state.learning import LearningState
from warren_gateway.coordinator.state.lease import TrainerLease
from warren_schemas.control import Heartbeat, HeldModel
from warren_schemas.envelope import Envelope
from warren_schemas.events import RunState
from warren_schemas.ids import WorkerId
from warren_schemas.training import CloseModel, OpenModel, is_full

log = logging.getLogger(__name__)

SILENCE_S = 10.0
"""A holder that nobody has heard of for this long has lost the lease."""
LOOK_S = 2.0
"""Least time between two looks at a holder that is still opening the model."""
GRANTS_IN_VAIN = 5
"""A model that this many trainers in a row gave back without one new answer is broken itself."""
LOSSES_IN_VAIN = 20
"""The same of workers that vanished with it: machines are taken away, and that says little about a model."""
TAKING_S = 60.0
"""Trainers have this long to take a job that was admitted because one has room; a live trainer has as long
to take its grant, for it lists the lease then, long before the model is open. One that does not has never
seen the grant."""


def watch(state: CoordinatorState, trainers: Sequence[Heartbeat]) -> bool:
    """Take the lease back from a holder that lost it; True when somebody needs it now.

    A model for which there was nothing to do is not what its trainer died of: models have neighbours there.
    """
    lease = state.lease
    if (newest := _newest_epoch(state, trainers)) > lease.epoch:
        log.warning("%s: a trainer has epoch %d, the store %d", state.run, newest, lease.epoch)
        lease.epoch = newest
        revoke(state)
    _close_old_ones(state, trainers)
    if lease.holder is None:
        if lease.is_job_sent and state.now_s - lease.seen_s > TAKING_S:
            log.warning("%s: nobody took the job of epoch %d", state.run, lease.epoch)
            revoke(state)
        return True
    beat = next((t for t in trainers if t.worker == lease.holder), None)
    held = HeldModel(model=state.model, epoch=max(1, lease.epoch))
    if beat is not None and held in beat.models:
        lease.seen_s, lease.was_listed = state.now_s, True
        return False
    was_idle = lease.is_opened and not op_log.has_unanswered(state.learning)
    if beat is not None and lease.was_listed:
        lease.n_grants_in_vain -= was_idle
        return revoke(state)
    if state.now_s - lease.seen_s <= (TAKING_S if beat is not None else SILENCE_S):
        return False
    lease.n_grants_in_vain -= 1
    lease.n_losses_in_vain += beat is None and not was_idle
    return revoke(state)


def _close_old_ones(state: CoordinatorState, trainers: Sequence[Heartbeat]) -> None:
    """A trainer that lost the lease without hearing of it lets go of the model: its room is wanted."""
    lease = state.lease
    for beat in trainers:
        for held in beat.models:
            is_old = held.epoch < lease.epoch or beat.worker != lease.holder
            told = (beat.worker, held.epoch)
            if held.model == state.model and is_old and told not in lease.closed:
                lease.closed.add(told)
                close_at(state, *told)


def _newest_epoch(state: CoordinatorState, trainers: Sequence[Heartbeat]) -> int:
    """Of the leases of this model that trainers hold."""
    held = (held for beat in trainers for held in beat.models if held.model == state.model)
    return max((one.epoch for one in held), default=0)


def gone_ahead(state: CoordinatorState, number: int, version: int) -> str | None:
    """The holder has applied another op under this number; the reason to end the run, if that can't be
    mended: it goes back to the checkpoint unless it has made a version that the log doesn't lead to."""
    known = _version_before(state.learning, number)
    if version > known:
        return ahead_reason("the trainer", version, known)
    if state.lease.holder is not None:
        log.warning("%s: the trainer is ahead of the op log and goes back", state.run)
        revoke(state)
    return None


def _version_before(learning: LearningState, number: int) -> int:
    """The policy version that the ops before this one lead to. Later ones say nothing of it: their versions
    may have the same numbers as those that were lost."""
    issued = (step.version for step in learning.steps.pending if 0 < step.last_op < number)
    return max(issued, default=learning.policy.version)


def ahead_reason(who: str, version: int, version_issued: int) -> str:
    """Why a run can't go on."""
    return (
        f"{who} has policy version {version}, and the store knows of none after {version_issued}: it has"
        " lost its newest changes (a power cut, or an old copy put back). Go on from a checkpoint in a new"
        " run, with resume_from"
    )


def revoke(state: CoordinatorState) -> bool:
    """Nobody has the model: its job is queued again, before those that never had a trainer."""
    lease = state.lease
    if state.run_state is RunState.STARTING:
        holder = lease.holder
        reason = f"{holder} no longer has the model" if holder else "no trainer has taken it"
        state.enter(RunState.QUEUED, reason)
    lease.holder, lease.is_opened = None, False
    lease.is_job_sent, lease.is_admitted, lease.is_held_back = False, False, False
    lease.taken_by = None
    state.change.model |= {"holder": None, "is_opened": False}
    state.change.job |= {
        "state": "queued" if state.needs_trainer else "over",
        "worker": None,
        "is_interrupted": True,
        "is_held_back": False,
    }
    return True


def able_trainers(base: str, n_gpus: int, trainers: Sequence[Heartbeat]) -> list[Heartbeat]:
    """Those that could hold a model if they had room: they offer its base model, and have its GPUs."""
    return [beat for beat in trainers if base in beat.offers and beat.n_devices >= n_gpus]


def has_room(state: CoordinatorState, trainers: Sequence[Heartbeat]) -> bool:
    """Whether one that offers the base model could take it; a full model needs an empty one."""
    alone = is_full(state.spec)
    able = able_trainers(state.spec.base_model, state.config.model.gpus, trainers)
    return any(t.in_flight < (1 if alone else t.capacity) for t in able)


def grant(state: CoordinatorState, worker: WorkerId) -> None:
    """Give the lease to the worker that took the job.

    The ops after the checkpoint are sent again by the coordinator, which reads them from the store.
    """
    lease, learning = state.lease, state.learning
    lease.n_grants_in_vain += 1
    if learning.ops.answered > lease.op_at_grant:
        lease.n_grants_in_vain, lease.op_at_grant = 1, learning.ops.answered
        lease.n_losses_in_vain = 0
    lease.holder, lease.seen_s = worker, state.now_s
    lease.is_opened = lease.was_listed = lease.is_released = False
    lease.is_job_sent = lease.is_admitted = lease.is_held_back = False
    lease.taken_by = None
    op_log.rewind(learning)
    if state.run_state is RunState.QUEUED:
        reason = f"{worker} loads {state.spec.base_model}"
        state.enter(RunState.STARTING, reason)
    state.change.model |= {
        "holder": worker,
        "granted_s": state.now_s,
        "is_opened": False,
        "done_op": learning.ops.done,
    }
    state.change.job |= {"state": "taken", "worker": worker, "taken_s": state.now_s}
    state.change.send(trainer(worker), opening(state))


def opening(state: CoordinatorState) -> OpenModel:
    """The order that grants the lease in force."""
    return OpenModel(
        envelope=Envelope(run=state.run),
        model=state.model,
        epoch=state.lease.epoch,
        spec=state.spec,
        checkpoint_url=state.learning.checkpoints.newest_url,
        next_op=state.learning.checkpoints.newest_op + 1,
        owner=state.owner,
    )


def release(state: CoordinatorState) -> None:
    """Give the model back for a while; whoever takes it next begins at the checkpoint."""
    if state.lease.holder is None:
        return
    log.info("%s: %s is free for others meanwhile", state.run, state.lease.holder)
    _close(state)
    state.lease.is_released = True
    state.lease.n_grants_in_vain -= 1
    revoke(state)
    state.lease.is_held_back = state.change.job["is_held_back"] = True


def leave(state: CoordinatorState) -> None:
    """The holder is drained: another trainer begins at the checkpoint."""
    log.info("%s: %s is drained and loses %s", state.run, state.lease.holder, state.model)
    _close(state)
    state.lease.n_grants_in_vain -= 1
    revoke(state)


def give_elsewhere(state: CoordinatorState, number: int) -> None:
    """The holder fails at an op that another was able to apply: it is no place for the model."""
    if (holder := state.lease.holder) is None:
        return
    log.warning("%s: op %d was done before and fails at %s", state.run, number, holder)
    _close(state)
    revoke(state)


def withdraw(state: CoordinatorState) -> None:
    """Its owner pauses the run: whoever has the model or is about to take it lets go, and nobody is asked."""
    if state.lease.holder is not None:
        release(state)
    else:
        _close(state)
        revoke(state)
    state.lease.is_held_back = True
    state.change.job |= {"is_interrupted": False, "is_held_back": True}


def queue_again(state: CoordinatorState) -> None:
    """It is resumed: behind those that are queued already, for it gave its place up."""
    state.lease.is_held_back = False
    state.change.job |= {"is_held_back": False, "queued_s": state.now_s}


def declined(state: CoordinatorState) -> None:
    """The holder had no capacity after all; that says nothing about the model."""
    state.lease.n_grants_in_vain -= 1
    revoke(state)


def is_hopeless(lease: TrainerLease, answered_op: int) -> bool:
    """Whether yet another trainer would only die of the same op."""
    are_too_many = (
        lease.n_grants_in_vain >= GRANTS_IN_VAIN or lease.n_losses_in_vain >= LOSSES_IN_VAIN
    )
    is_at_a_loss = lease.holder is None and answered_op <= lease.op_at_grant
    return is_at_a_loss and are_too_many


def reason_to_end(lease: TrainerLease, answered_op: int) -> str | None:
    """Why to end a run of which every trainer is lost at the same op."""
    if not is_hopeless(lease, answered_op):
        return None
    n = max(lease.n_grants_in_vain, lease.n_losses_in_vain)
    return (
        f"{n} trainers in a row died or gave the model back after op {answered_op};"
        " the logs of the GPU workers say why"
    )


def still_held(state: CoordinatorState) -> None:
    """While the broker is away nobody can be heard, so silence says nothing."""
    state.lease.seen_s = state.now_s


def opened(state: CoordinatorState) -> None:
    """The holder has answered that it has the model."""
    state.lease.is_opened, state.lease.seen_s = True, state.now_s
    state.change.model["is_opened"] = True


def give_up(state: CoordinatorState) -> None:
    """The run is over: the holder may let go of the model."""
    state.change.model["is_closed"] = True
    state.change.end_job()
    _close(state)


def _close(state: CoordinatorState) -> None:
    if (worker := state.lease.holder or state.lease.taken_by) is not None:
        close_at(state, worker, state.lease.epoch)


def close_at(state: CoordinatorState, worker: WorkerId, epoch: int) -> None:
    """This worker may let go of the model, if it has it in this epoch or an older one."""
    item = CloseModel(envelope=Envelope(run=state.run), model=state.model, epoch=epoch)
    state.change.send(trainer(worker), item)


def next_check_s(lease: TrainerLease, now_s: float) -> float:
    """When to look again whether the holder has fallen silent."""
    if lease.holder is None:
        return lease.seen_s + TAKING_S + LOOK_S if lease.is_job_sent else math.inf
    return max(lease.seen_s + SILENCE_S, now_s + LOOK_S)
