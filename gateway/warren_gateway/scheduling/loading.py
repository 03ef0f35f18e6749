"""Base models that nobody holds, loaded by idle GPU workers that may (`--may-load`).

Which worker loads what is the policy's decision; it is kept in the store with its time.

Invariants
- An order is sent again as long as the worker is there and its heartbeats don't say that it loads.
- A worker that obeys leaves, and comes again under another id. Until that is heard, and for `GAP_S` at most, what was
  decided holds, so that no second worker loads the same; one that died is forgotten then, and another one is told.
- No worker gives up a base model that it samples for runs elsewhere, or that has a name, while no other sampler has it.
"""

from collections.abc import Collection, Mapping, Sequence

from sqlalchemy import union
from sqlmodel import Session, col, select

from warren_broker.topology import trainer
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


def spared(beat: Heartbeat, workers: Sequence[Heartbeat], used: InUse) -> bool:
    """Whether nobody would miss what the process of this trainer samples from."""
    samplers = [one for one in workers if one.role is WorkerRole.SAMPLER]
    ours = [one for one in samplers if (one.host, one.pid) == (beat.host, beat.pid)]
    elsewhere = {base for one in samplers if one not in ours for base in one.offers}
    missed = {base for base, worker in used if worker != beat.worker} - elsewhere
    return not any(one.in_flight for one in ours) and missed.isdisjoint(beat.offers)


def on_their_way(
    row: SchedulerRow, workers: Sequence[Heartbeat], now_s: float
) -> dict[WorkerId, str]:
    """Workers that were told to load something and have left, to come again with it."""
    here = {beat.worker for beat in workers}
    come = {base for beat in workers for base in (*beat.loading, *beat.offers)}
    return {
        WorkerId(worker): base
        for base, (worker, at_s) in _decided(row).items()
        if worker not in here and base not in come and now_s - at_s < GAP_S
    }


def order_loads(
    session: Session,
    row: SchedulerRow,
    decided: Mapping[WorkerId, str],
    away: Mapping[WorkerId, str],
    now_s: float,
) -> bool:
    """Keep what was decided, and tell the workers; whether an order waits in the outbox."""
    known, n_told = _decided(row), 0
    kept = {base: known[base] for base in away.values()}
    for worker, base in decided.items():
        before, told_s = known.get(base, ("", 0.0))
        if before != worker or now_s - told_s >= AGAIN_S:
            post(session, trainer(worker), LoadBaseModel(envelope=Envelope(), base_model=base))
            told_s, n_told = now_s, n_told + 1
        kept[base] = (worker, told_s)
    if kept != known:
        row.loading = kept
    return n_told > 0


def _decided(row: SchedulerRow) -> dict[str, tuple[str, float]]:
    """JSON has made lists of them."""
    return {base: (worker, at_s) for base, (worker, at_s) in row.loading.items()}
