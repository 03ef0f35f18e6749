"""Base models that nobody holds, loaded by idle GPU workers that may (`--may-load`).

Which worker loads what is the policy's decision; it is kept in the store with its time. Nobody holds a base model for
a job whose GPUs those that hold it don't have. A run that needs no trainer has its base model loaded where neither a
sampler nor a trainer has it.

Invariants
- An order is sent again as long as the worker is there and its heartbeats don't say that it loads.
- A worker that obeys leaves, and comes again under another id. Until that is heard, and for `GAP_S` at most, what was
  decided holds, so that no second worker loads the same; one that died is forgotten then, and another one is told.
- No worker gives up a base model that it samples for runs elsewhere, or that has a name, while no other sampler has it.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import union
from sqlmodel import Session, col, select

from warren_broker.topology import trainer
from warren_gateway.scheduling.job_records import JobRecord, without_trainer
from warren_gateway.store.outbox import post
from warren_gateway.store.tables import JobRow, Run, SchedulerRow, ServedRow
from warren_schemas.control import Heartbeat, WorkerRole
from warren_schemas.envelope import Envelope
from warren_schemas.events import RunState
from warren_schemas.ids import WorkerId
from warren_schemas.training import LoadBaseModel

GAP_S = 30.0
AGAIN_S = 5.0
_AT_REST = [*(state for state in RunState if state.is_final), RunState.QUEUED, RunState.PAUSED]

InUse = Collection[tuple[str, str | None]]
"""Base models, each with the worker that trains on it, if one does."""


class Told(NamedTuple):
    """What a worker was told to load, when (Unix time), and how many GPUs it has."""

    base: str
    at_s: float
    n_gpus: int


def in_use(session: Session, workers: Sequence[Heartbeat]) -> InUse:
    """By runs that are going on, and by names; not looked up where no worker may load anything."""
    if not any(beat.may_load for beat in workers):
        return ()
    runs = (
        select(col(JobRow.base_model), col(JobRow.worker))
        .join(Run, col(Run.id) == col(JobRow.run_id))
        .where(col(Run.state).not_in(_AT_REST))
    )
    names = select(col(ServedRow.base_model), None).where(col(ServedRow.until_s).is_(None))
    return {(base, worker) for base, worker in session.connection().execute(union(runs, names))}


def unsampled(session: Session, workers: Sequence[Heartbeat]) -> list[JobRecord]:
    """Runs that need samplers alone, and have none; not looked up where no worker may load anything."""
    if not any(beat.may_load for beat in workers):
        return []
    samplers = (beat for beat in workers if beat.role is WorkerRole.SAMPLER)
    offered = {base for beat in samplers for base in beat.offers}
    return [job for job in without_trainer(session) if job.base_model not in offered]


def spared(beat: Heartbeat, workers: Sequence[Heartbeat], used: InUse) -> bool:
    """Whether nobody would miss what the process of this trainer samples from."""
    samplers = [one for one in workers if one.role is WorkerRole.SAMPLER]
    ours = [one for one in samplers if (one.host, one.pid) == (beat.host, beat.pid)]
    elsewhere = {base for one in samplers if one not in ours for base in one.offers}
    missed = {base for base, worker in used if worker != beat.worker} - elsewhere
    return not any(one.in_flight for one in ours) and missed.isdisjoint(beat.offers)


def on_their_way(
    row: SchedulerRow, workers: Sequence[Heartbeat], now_s: float
) -> dict[WorkerId, Told]:
    """Workers that were told to load something and have left, to come again with it."""
    here = {beat.worker for beat in workers}
    return {
        worker: one
        for worker, one in _decided(row).items()
        if worker not in here and now_s - one.at_s < GAP_S and not _has_come(one, workers)
    }


def _has_come(one: Told, workers: Sequence[Heartbeat]) -> bool:
    has = (beat for beat in workers if one.base in (*beat.loading, *beat.offers))
    return any(beat.n_devices >= one.n_gpus for beat in has)


def order_loads(
    session: Session,
    row: SchedulerRow,
    workers: Sequence[Heartbeat],
    decided: Mapping[WorkerId, str],
    away: Mapping[WorkerId, Told],
    now_s: float,
) -> bool:
    """Keep what was decided, and tell the workers; whether an order waits in the outbox."""
    known, n_told = _decided(row), 0
    kept = dict(away)
    for beat in workers:
        if (base := decided.get(beat.worker)) is None:
            continue
        told = known.get(beat.worker)
        if told is None or told.base != base or now_s - told.at_s >= AGAIN_S:
            post(session, trainer(beat.worker), LoadBaseModel(envelope=Envelope(), base_model=base))
            told, n_told = Told(base, now_s, beat.n_devices), n_told + 1
        kept[beat.worker] = told
    if kept != known:
        row.loading = {str(worker): told for worker, told in kept.items()}
    return n_told > 0


def _decided(row: SchedulerRow) -> dict[WorkerId, Told]:
    """JSON has made lists of them."""
    return {WorkerId(worker): Told(*told) for worker, told in row.loading.items()}
