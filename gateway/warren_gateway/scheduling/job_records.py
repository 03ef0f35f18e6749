"""Jobs as plain tuples: each decision reads all that are not over, perhaps a thousand."""

import json
from functools import lru_cache
from typing import NamedTuple, cast

from sqlalchemy import Executable, Text, select
from sqlalchemy import cast as sql_cast
from sqlmodel import Session, SQLModel, col

from warren_gateway.scheduling.decision import HeldJob, WaitingJob
from warren_gateway.store.tables import JobRow, Run
from warren_schemas.events import RunState
from warren_schemas.ids import ModelId, RunId, WorkerId

OPEN = ("queued", "admitted", "taken")


class JobRecord(NamedTuple):
    """A row of `job`; of its run, what its owner was told last of why it waits, who drives it, and its priority."""

    number: int
    run_id: RunId
    model_id: ModelId
    owner: str
    base_model: str
    is_full: bool
    n_gpus: int
    memory_bytes: int | None
    plays_at_once: bool
    environments: list[tuple[str, str]]
    state: str
    queued_s: float
    wait_s: float | None
    admitted_s: float | None
    taken_s: float | None
    worker: WorkerId | None
    is_interrupted: bool
    is_held_back: bool
    told: str | None
    coordinator: str | None
    priority: int

    def waiting(self, number: int, blocked_by: str | None) -> WaitingJob:
        return WaitingJob(
            model=self.model_id,
            run=self.run_id,
            owner=self.owner,
            base_model=self.base_model,
            is_full=self.is_full,
            n_gpus=self.n_gpus,
            memory_bytes=self.memory_bytes,
            priority=self.priority,
            queued_s=self.queued_s,
            number=number,
            is_interrupted=self.is_interrupted,
            blocked_by=blocked_by,
        )

    def held(self) -> HeldJob:
        return HeldJob(
            model=self.model_id,
            run=self.run_id,
            owner=self.owner,
            base_model=self.base_model,
            is_full=self.is_full,
            n_gpus=self.n_gpus,
            worker=self.worker,
            since_s=self.taken_s or self.admitted_s or self.queued_s,
            memory_bytes=self.memory_bytes,
        )


_TABLE = SQLModel.metadata.tables["job"]
_ENVIRONMENTS = JobRecord._fields.index("environments")
_COLUMNS = [
    sql_cast(_TABLE.c[name], Text) if name == "environments" else _TABLE.c[name]
    for name in JobRecord._fields[:-3]
]
_RECORDS = (
    select(*_COLUMNS, col(Run.waiting_for), col(Run.coordinator), col(Run.priority))
    .join(Run, col(Run.id) == col(JobRow.run_id))
    .order_by(col(JobRow.queued_s), col(JobRow.number))
)
_OPEN = _RECORDS.where(col(JobRow.state).in_(OPEN))
_AT_REST = [*(state for state in RunState if state.is_final), RunState.PAUSED]
_GOING = _RECORDS.where(col(Run.state).not_in(_AT_REST))


def open_jobs(session: Session) -> list[JobRecord]:
    """In the order in which they queued."""
    return _records(session, _OPEN)


def without_trainer(session: Session) -> list[JobRecord]:
    """Of runs that go on and need samplers alone: evaluations of a base model."""
    return [job for job in _records(session, _GOING) if job.state not in OPEN and job.plays_at_once]


def _records(session: Session, query: Executable) -> list[JobRecord]:
    n = _ENVIRONMENTS
    rows = session.connection().execute(query)
    return [JobRecord._make((*row[:n], _parsed(row[n]), *row[n + 1 :])) for row in rows]


@lru_cache(maxsize=1024)
def _parsed(environments: str) -> list[tuple[str, str]]:
    """A thousand jobs play a handful of things; nobody changes what they share."""
    return cast("list[tuple[str, str]]", json.loads(environments))
