"""One decision of the scheduler: read, decide, write, in one transaction."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import update
from sqlmodel import Session, col

from warren_broker.topology import RUN_CHANGES, trainer
from warren_gateway.advice import Advice
from warren_gateway.coordinator.run_leases import TO_COME, call_for
from warren_gateway.scheduling import notices
from warren_gateway.scheduling.blocked import Blockers
from warren_gateway.scheduling.closing_models import closing_models
from warren_gateway.scheduling.deadlines import give_up
from warren_gateway.scheduling.decision import Decision, Place, decide
from warren_gateway.scheduling.job_records import JobRecord, open_jobs
from warren_gateway.scheduling.load_budget import charge, within_budget
from warren_gateway.scheduling.loading import in_use, on_their_way, order_loads, unsampled
from warren_gateway.scheduling.owner_shares import owner_shares
from warren_gateway.scheduling.trainer_states import trainer_states
from warren_gateway.store.outbox import post
from warren_gateway.store.store import GATEWAY
from warren_gateway.store.tables import JobRow, SchedulerRow
from warren_gateway.usage.limits import DEFAULT_LIMITS, OwnerLimits
from warren_schemas.control import Heartbeat, RunChanged, WorkerRole
from warren_schemas.envelope import Envelope
from warren_schemas.ids import RunId
from warren_schemas.training import KeepForJob


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of one decision."""

    admitted: tuple[RunId, ...]
    next: tuple[RunId, ...]
    """Whose coordinators get ready, because they are admitted soon."""
    given_up: tuple[RunId, ...]
    """They have waited for too long: a coordinator ends them."""
    places: Mapping[RunId, Place]
    told: notices.Told
    has_orders: bool
    """Orders to trainers, or words to other gateways, wait in the outbox."""


def run_pass(
    session: Session,
    workers: Sequence[Heartbeat],
    advice: Advice,
    now_s: float,
    limits: OwnerLimits = DEFAULT_LIMITS,
) -> Outcome:
    """Decide what these live workers may take."""
    row = session.get_one(SchedulerRow, 1, with_for_update=True)
    jobs = open_jobs(session)
    waiting = [job for job in jobs if job.state == "queued"]
    placed = [job for job in jobs if job.state != "queued"]
    held = [job.held() for job in placed]
    trainers = [beat for beat in workers if beat.role is WorkerRole.TRAINER]
    blockers = Blockers(workers, advice)
    away = on_their_way(row, trainers, now_s)
    closing = closing_models(session, trainers, {job.model for job in held})
    wanted = unsampled(session, workers)
    most = limits.of_all(session, {job.owner for job in wanted}) if wanted else {}
    evaluations = within_budget(wanted, row, most, now_s)
    decision = decide(
        [job.waiting(n, blockers.reason(job)) for n, job in enumerate(waiting)],
        held,
        trainer_states(workers, held, row.reserved, in_use(session, workers), away, closing),
        owner_shares(session, {job.owner for job in jobs}, limits, now_s),
        sampled=[job.waiting(n, None) for n, job in enumerate(evaluations)],
        now_s=now_s,
    )
    reserved = {str(worker): str(model) for worker, model in decision.reserved.items()}
    if row.reserved != reserved:
        row.reserved = reserved
    has_orders = _keep(session, trainers, decision)
    charge(row, decision.load.values(), evaluations, waiting, now_s)
    has_orders |= order_loads(session, row, trainers, decision.load, away, now_s)
    admitted = _admit(session, decision, now_s)
    by_model = {job.model_id: job for job in waiting}
    left = [by_model[model] for model in decision.places]
    places = {by_model[model].run_id: place for model, place in decision.places.items()}

    def missing(job: JobRecord) -> str | None:
        return blockers.missing(job, decision.places[job.model_id].reason)

    placed += [by_model[model] for model in decision.admitted]
    told = notices.tell(session, left, placed, trainers, missing, advice, now_s=now_s)
    given_up = give_up(session, left, decision.places)
    changed = {*admitted, *given_up}
    has_orders |= _tell_others(session, [job for job in waiting if job.run_id in changed])
    coming = (by_model[model] for model in decision.next)
    ready = call_for(session, [job.run_id for job in coming if job.coordinator is None])
    return Outcome(admitted, ready, given_up, places, told, has_orders)


def _keep(session: Session, trainers: Sequence[Heartbeat], decision: Decision) -> bool:
    """Tell trainers what they are kept for, as long as their heartbeats say otherwise."""
    late = [beat for beat in trainers if beat.kept_for != decision.reserved.get(beat.worker)]
    for beat in late:
        order = KeepForJob(envelope=Envelope(), model=decision.reserved.get(beat.worker))
        post(session, trainer(beat.worker), order)
    return bool(late)


def _tell_others(session: Session, jobs: Iterable[JobRecord]) -> bool:
    """Gateways that drive these runs hear of it at once; they would look at the next renewal of their leases."""
    near = (None, TO_COME, session.info.get(GATEWAY))
    far = [job.run_id for job in jobs if job.coordinator not in near]
    changes = (RunChanged(envelope=Envelope(run=run), changed_run=run) for run in far)
    post(session, RUN_CHANGES, *changes)
    return bool(far)


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
