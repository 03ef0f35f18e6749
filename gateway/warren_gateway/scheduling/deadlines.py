"""Jobs that have waited in the queue for longer than their runs allow.

Invariants: a job that was admitted once is its coordinator's, which knows what it waits for (`coordinator.waiting`);
one that is given up here is ended by a coordinator, like one that is cancelled in the queue, so that runs end in one
place. Times are the store's, whichever gateway decides.
"""

from collections.abc import Mapping, Sequence

from sqlalchemy import update
from sqlmodel import Session, col

from warren_gateway.coordinator.waiting import waited_too_long
from warren_gateway.scheduling.decision import Place
from warren_gateway.scheduling.job_records import JobRecord
from warren_gateway.store.clock import store_time_s
from warren_gateway.store.tables import Run
from warren_schemas.ids import ModelId, RunId


def give_up(
    session: Session, jobs: Sequence[JobRecord], places: Mapping[ModelId, Place]
) -> tuple[RunId, ...]:
    """The runs of these queued jobs that fail now."""
    limited = [job for job in jobs if job.wait_s is not None and _is_in_queue(job)]
    if not limited:
        return ()
    now_s, given_up = store_time_s(session), list[RunId]()
    for job in limited:
        waited_s = now_s - job.queued_s
        if job.wait_s is not None and waited_s >= job.wait_s:
            reason = waited_too_long(waited_s, job.wait_s, places[job.model_id].reason)
            fresh = col(Run.id) == job.run_id, col(Run.given_up).is_(None)
            if session.exec(update(Run).where(*fresh).values(given_up=reason)).rowcount:
                given_up.append(job.run_id)
    return tuple(given_up)


def _is_in_queue(job: JobRecord) -> bool:
    return job.admitted_s is None and not job.is_interrupted and not job.is_held_back
