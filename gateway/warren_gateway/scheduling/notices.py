"""What the owner of a queued run is told by an event: what is missing, or who has the trainers.

Where a job stands changes with every decision and is answered when somebody asks; an event is for what a
person may do something about. Runs that were admitted before have a coordinator, which tells it.

Invariants: one decision tells of no more than `MOST_AT_ONCE` runs, those that are next first, in a handful
of statements; what was told once is told again only when it has changed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlalchemy import bindparam, update
from sqlmodel import Session, SQLModel

from warren_broker.topology import Stream, run_events
from warren_gateway.advice import Advice
from warren_gateway.coordinator.lease import busy
from warren_gateway.coordinator.records import runs_of
from warren_gateway.coordinator.state.observed import TrainedRun
from warren_gateway.scheduling.job_records import JobRecord
from warren_gateway.store.outbox import post_all
from warren_schemas.control import Heartbeat
from warren_schemas.envelope import Envelope, Item
from warren_schemas.events import RunEvent, WaitingEnded, WaitingStarted
from warren_schemas.ids import ModelId, RunId

PATIENCE_S = 3.0
"""Workers may come up a moment after the run; only what is missing for longer is told."""
MOST_AT_ONCE = 32
REST_S = 0.25
"""Until the next ones are told."""

_RUN = SQLModel.metadata.tables["run"]
_TELL = update(_RUN).where(_RUN.c.id == bindparam("run")).values(waiting_for=bindparam("reason"))


@dataclass(frozen=True, slots=True)
class Told:
    has_told: bool
    """Events wait in the outbox."""
    next_s: float | None
    """When more is to be told even if nothing changes."""


def tell(
    session: Session,
    jobs: Sequence[JobRecord],
    admitted: Sequence[JobRecord],
    trainers: Sequence[Heartbeat],
    missing: Callable[[JobRecord], str | None],
    advice: Advice,
    *,
    now_s: float,
) -> Told:
    """`jobs` are those that were not admitted, those that are next first; `admitted`: those that have a place;
    `missing`: a reason."""
    fresh = [job for job in jobs if job.coordinator is None]
    due = [job for job in fresh if job.queued_s + PATIENCE_S <= now_s]
    times = (job.queued_s + PATIENCE_S for job in fresh)
    next_s = min((time_s for time_s in times if time_s > now_s), default=None)
    holders = _Holders(session, admitted, trainers, advice)
    news: list[tuple[RunId, str | None]] = []
    for place, job in enumerate(due):
        reason = missing(job) or holders.reason(job, is_next=place == 0)
        if reason != job.told:
            news.append((job.run_id, reason))
        if len(news) == MOST_AT_ONCE:
            next_s = now_s + REST_S
            break
    _tell(session, news, now_s)
    return Told(bool(news), next_s)


class _Holders:
    """Who has the trainers of a base model, looked up once for all that wait for it."""

    def __init__(
        self,
        session: Session,
        admitted: Sequence[JobRecord],
        trainers: Sequence[Heartbeat],
        advice: Advice,
    ) -> None:
        self._session = session
        self._admitted = admitted
        self._trainers = trainers
        self._advice = advice
        self._runs: dict[str, dict[ModelId, TrainedRun]] = {}
        self._reasons: dict[tuple[str, str, bool, int], str] = {}

    def reason(self, job: JobRecord, *, is_next: bool) -> str:
        """It is told once, and kept true for the job that is next."""
        if job.told is not None and busy.is_told(job.told) and not is_next:
            return job.told
        key = job.base_model, job.owner, job.is_full, job.n_gpus
        if key not in self._reasons:
            self._reasons[key] = busy.reason(
                job.base_model,
                [beat for beat in self._trainers if beat.n_devices >= job.n_gpus],
                self._runs_of(job.base_model),
                owner=job.owner,
                is_full=job.is_full,
                advice=self._advice,
            )
        return self._reasons[key]

    def _runs_of(self, base: str) -> dict[ModelId, TrainedRun]:
        if base not in self._runs:
            admitted = self._admitted_with(base)
            runs = runs_of(self._session, busy.holding(base, self._trainers) | admitted)
            self._runs[base] = {
                model: busy.placed(run) if model in admitted else run for model, run in runs.items()
            }
        return self._runs[base]

    def _admitted_with(self, base: str) -> frozenset[ModelId]:
        return frozenset(job.model_id for job in self._admitted if job.base_model == base)


def _tell(session: Session, news: Sequence[tuple[RunId, str | None]], now_s: float) -> None:
    if not news:
        return
    session.connection().execute(_TELL, [{"run": run, "reason": reason} for run, reason in news])
    post_all(session, [_event(run, reason, now_s) for run, reason in news])


def _event(run: RunId, reason: str | None, now_s: float) -> tuple[Stream, Item]:
    body = WaitingEnded() if reason is None else WaitingStarted(reason=reason)
    return run_events(run), RunEvent(envelope=Envelope(run=run), at_s=now_s, body=body)
