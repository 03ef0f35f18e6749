"""What the owner of a queued run is told by an event: what is missing, or who has the trainers.

Where a job stands changes with every decision and is answered when somebody asks; an event is for what a
person may do something about. Runs that were admitted before have a coordinator, which tells it.

Invariant: one decision tells of no more than `MOST_AT_ONCE` runs, those that are next first.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlalchemy import update
from sqlmodel import Session, col, select

from warren_broker.topology import run_events
from warren_gateway.advice import Advice
from warren_gateway.coordinator import busy
from warren_gateway.coordinator.records import runs_of
from warren_gateway.store.outbox import post
from warren_gateway.store.tables import JobRow, Run
from warren_schemas.control import Heartbeat
from warren_schemas.envelope import Envelope
from warren_schemas.events import RunEvent, WaitingEnded, WaitingStarted
from warren_schemas.ids import RunId

PATIENCE_S = 3.0
"""Workers may come up a moment after the run; only what is missing for longer is told."""
MOST_AT_ONCE = 32


_BUSY = "every trainer that offers"


@dataclass(frozen=True, slots=True)
class Told:
    has_told: bool
    """Events wait in the outbox."""
    next_s: float | None
    """When more is to be told even if nothing changes."""


def tell(
    session: Session,
    jobs: Sequence[JobRow],
    trainers: Sequence[Heartbeat],
    reasons: Callable[[JobRow], str | None],
    advice: Advice,
    *,
    now_s: float,
) -> Told:
    """`jobs` are those that were not admitted, those that are next first; `reasons`: what is missing."""
    known = _told_before(session)
    fresh = [job for job in jobs if job.run_id in known]
    due = [job for job in fresh if job.queued_s + PATIENCE_S <= now_s]
    times = (job.queued_s + PATIENCE_S for job in fresh)
    next_s = min((time_s for time_s in times if time_s > now_s), default=None)
    n_told = 0
    for place, job in enumerate(due):
        before = known.get(job.run_id)
        reason = reasons(job) or _busy(session, job, trainers, advice, before, is_next=place == 0)
        if reason == before:
            continue
        if n_told == MOST_AT_ONCE:
            return Told(has_told=True, next_s=now_s)
        _tell(session, job.run_id, reason, now_s)
        n_told += 1
    return Told(n_told > 0, next_s)


def _told_before(session: Session) -> dict[str, str | None]:
    """Of the queued runs that have no coordinator."""
    query = (
        select(Run.id, Run.waiting_for)
        .join(JobRow, col(JobRow.run_id) == col(Run.id))
        .where(col(JobRow.state) == "queued", col(Run.coordinator).is_(None))
    )
    return dict(session.exec(query).all())


def _busy(
    session: Session,
    job: JobRow,
    trainers: Sequence[Heartbeat],
    advice: Advice,
    before: str | None,
    *,
    is_next: bool,
) -> str | None:
    """Who has the trainers is told once, and kept true for the one that is next."""
    if before is not None and before.startswith(_BUSY) and not is_next:
        return before
    return busy.reason(
        job.base_model,
        trainers,
        runs_of(session, busy.holding(job.base_model, trainers)),
        owner=job.owner,
        is_full=job.is_full,
        advice=advice,
    )


def _tell(session: Session, run: str, reason: str | None, now_s: float) -> None:
    session.exec(update(Run).where(col(Run.id) == run).values(waiting_for=reason))
    body = WaitingEnded() if reason is None else WaitingStarted(reason=reason)
    event = RunEvent(envelope=Envelope(run=RunId(run)), at_s=now_s, body=body)
    post(session, run_events(run), event)
