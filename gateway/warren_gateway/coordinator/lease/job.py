"""The job of the run's model: how it gets a trainer, once the scheduler has admitted it.

Whichever trainer has room takes the job and says so; the first one that does is granted the lease.

Invariants: a job is sent for one epoch, and only while it is admitted and nobody holds the lease; of those
who take it, whatever twins of the message there are, one is granted the lease, and every other lets go.
"""

import logging

from warren_broker.topology import WorkQueue, jobs, results, train
from warren_gateway.coordinator.lease.trainer_lease import close_at, revoke
from warren_gateway.coordinator.state.coordinator import CoordinatorState
from warren_schemas.envelope import Envelope
from warren_schemas.training import Job, JobTaken, is_full

log = logging.getLogger(__name__)


def note_admission(state: CoordinatorState, is_admitted: bool) -> None:
    """What the scheduler says in the job's row."""
    state.lease.is_admitted = is_admitted and state.lease.holder is None


def note_wanted(state: CoordinatorState, is_wanted: bool) -> None:
    """Tell the scheduler when a job that waits has nothing to do for a trainer, and when it has again."""
    lease = state.lease
    if not is_wanted and lease.is_admitted and not lease.is_job_sent:
        revoke(state)
    if lease.holder is None and not lease.is_admitted and lease.is_held_back is is_wanted:
        lease.is_held_back = not is_wanted
        state.change.job["is_held_back"] = lease.is_held_back


def send(state: CoordinatorState) -> None:
    """Ask for a trainer: whichever has room takes the job, and is granted the lease of the next epoch."""
    lease = state.lease
    lease.epoch, lease.is_job_sent, lease.taken_by = lease.epoch + 1, True, None
    lease.seen_s = state.now_s
    state.change.model["epoch"] = lease.epoch
    state.change.send(*message(state))


def message(state: CoordinatorState) -> tuple[WorkQueue, Job]:
    """The message that a trainer takes, and where it waits for one."""
    item = Job(
        envelope=Envelope(run=state.run),
        model=state.model,
        epoch=state.lease.epoch,
        spec=state.spec,
        owner=state.owner,
    )
    return queue(state), item


def queue(state: CoordinatorState) -> WorkQueue:
    """That of the trainers that have what the model needs."""
    spec, n_gpus = state.spec, state.config.model.gpus
    return jobs(spec.base_model, is_full=is_full(spec), n_gpus=n_gpus)


def absorb_taken(state: CoordinatorState, taken: JobTaken) -> None:
    """A trainer keeps room for the job: the first one is granted the lease, any other lets go."""
    lease = state.lease
    if taken.model != state.model:
        return
    if taken.epoch == lease.epoch and taken.worker in (lease.holder, lease.taken_by):
        return
    if (newer := taken.late_after) is not None:
        if newer >= lease.epoch and lease.is_job_sent and lease.taken_by is None:
            log.warning("%s: %s has had epoch %d", state.run, taken.worker, newer)
            lease.epoch = newer
            revoke(state)
        return
    if taken.epoch == lease.epoch and lease.is_job_sent and lease.taken_by is None:
        lease.taken_by = taken.worker
        return
    log.info("%s: %s took a job that is over", state.run, taken.worker)
    close_at(state, taken.worker, taken.epoch)


def own_queues(state: CoordinatorState) -> list[WorkQueue]:
    """Of the run alone: those of the answers and of every lease that there was, or would have been next."""
    model, n_epochs = state.model, state.lease.epoch + 1
    return [results(model), *(train(model, epoch) for epoch in range(1, n_epochs + 1))]
