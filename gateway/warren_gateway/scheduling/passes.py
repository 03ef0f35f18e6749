"""One decision of the scheduler: read, decide, write, in one transaction."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import update
from sqlmodel import Session, col, select

from warren_broker.topology import trainer
from warren_gateway.advice import Advice
from warren_gateway.scheduling import notices
from warren_gateway.scheduling.blocked import Blockers
from warren_gateway.scheduling.owner_shares import owner_shares
from warren_gateway.scheduling.policy import (
    Decision,
    HeldJob,
    Place,
    WaitingJob,
    decide,
)
from warren_gateway.scheduling.rooms import rooms
from warren_gateway.store.outbox import post
from warren_gateway.store.tables import JobRow, SchedulerRow
from warren_gateway.usage.limits import DEFAULT_LIMITS, OwnerLimits
from warren_schemas.control import Heartbeat, WorkerRole
from warren_schemas.envelope import Envelope
from warren_schemas.ids import ModelId, RunId, WorkerId
from warren_schemas.training import KeepForJob


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of one decision."""

    admitted: tuple[RunId, ...]
    places: Mapping[RunId, Place]
    told: notices.Told
    has_orders: bool
    """Orders to trainers wait in the outbox."""


def run_pass(
    session: Session,
    workers: Sequence[Heartbeat],
    advice: Advice,
    now_s: float,
    limits: OwnerLimits = DEFAULT_LIMITS,
) -> Outcome:
    """Decide what these live workers may take."""
    row = session.get_one(SchedulerRow, 1, with_for_update=True)
    jobs = session.exec(
        select(JobRow)
        .where(col(JobRow.state) != "over")
        .order_by(col(JobRow.queued_s), col(JobRow.number))
    ).all()
    waiting = [job for job in jobs if job.state == "queued"]
    held = [_held(job) for job in jobs if job.state != "queued"]
    trainers = [beat for beat in workers if beat.role is WorkerRole.TRAINER]
    blockers = Blockers(workers, advice)
    decision = decide(
        [_waiting(job, n, blockers.reason(job)) for n, job in enumerate(waiting)],
        held,
        rooms(trainers, held, row.reserved),
        owner_shares(session, {job.owner for job in jobs}, limits, now_s),
        now_s=now_s,
    )
    reserved = {str(worker): str(model) for worker, model in decision.reserved.items()}
    if row.reserved != reserved:
        row.reserved = reserved
    has_orders = _keep(session, trainers, decision)
    admitted = _admit(session, decision, now_s)
    left = [job for job in waiting if ModelId(job.model_id) in decision.places]
    run_of = {job.model_id: RunId(job.run_id) for job in waiting}
    places = {run_of[model]: place for model, place in decision.places.items()}
    left.sort(key=lambda job: places[RunId(job.run_id)].number)
    told = notices.tell(session, left, trainers, blockers.missing, advice, now_s=now_s)
    return Outcome(admitted, places, told, has_orders)


def _keep(session: Session, trainers: Sequence[Heartbeat], decision: Decision) -> bool:
    """Tell trainers what they are kept for, as long as their heartbeats say otherwise."""
    late = [beat for beat in trainers if beat.kept_for != decision.reserved.get(beat.worker)]
    for beat in late:
        order = KeepForJob(envelope=Envelope(), model=decision.reserved.get(beat.worker))
        post(session, trainer(beat.worker), order)
    return bool(late)


def _admit(session: Session, decision: Decision, now_s: float) -> tuple[RunId, ...]:
    """One that was cancelled or paused a moment ago is passed over."""
    if not decision.admitted:
        return ()
    is_free = (col(JobRow.state) == "queued") & col(JobRow.is_held_back).is_(False)
    chosen = col(JobRow.model_id).in_(decision.admitted), is_free
    values = {"state": "admitted", "admitted_s": now_s}
    done = session.exec(
        update(JobRow).where(*chosen).values(**values).returning(col(JobRow.run_id))
    )
    return tuple(RunId(run) for (run,) in done)


def _waiting(job: JobRow, number: int, blocked_by: str | None) -> WaitingJob:
    return WaitingJob(
        model=ModelId(job.model_id),
        run=RunId(job.run_id),
        owner=job.owner,
        base_model=job.base_model,
        is_full=job.is_full,
        n_gpus=job.n_gpus,
        memory_bytes=job.memory_bytes,
        priority=job.priority,
        queued_s=job.queued_s,
        number=number,
        is_interrupted=job.is_interrupted,
        blocked_by=blocked_by,
    )


def _held(job: JobRow) -> HeldJob:
    return HeldJob(
        model=ModelId(job.model_id),
        run=RunId(job.run_id),
        owner=job.owner,
        base_model=job.base_model,
        is_full=job.is_full,
        n_gpus=job.n_gpus,
        worker=WorkerId(job.worker) if job.worker else None,
        since_s=job.taken_s or job.admitted_s or job.queued_s,
        memory_bytes=job.memory_bytes,
    )
