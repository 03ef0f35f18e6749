"""Runs: what their owners wanted, what became of it, who may read it.

Invariants
- `run.epoch` only rises; whoever acts for an older epoch is ignored.
- `run.stream_offset` is the first trajectory message that may hold an episode not yet consumed.
"""

from typing import Any, ClassVar

from sqlalchemy import JSON, Column, Index, UniqueConstraint
from sqlmodel import Field, SQLModel


class Run(SQLModel, table=True):
    __tablename__: ClassVar[Any] = "run"
    __table_args__ = (
        UniqueConstraint("owner", "idempotency_key"),
        Index("ix_run_owner", "owner", "id"),
        Index("ix_run_owner_state", "owner", "state", "id"),
        Index("ix_run_state", "state", "id"),
        Index("ix_run_owner_sweep", "owner", "sweep"),
    )

    id: str = Field(primary_key=True)
    owner: str
    name: str
    idempotency_key: str | None = None
    config: dict[str, Any] = Field(sa_column=Column(JSON, nullable=False))
    state: str
    phase: str | None = None
    waiting_for: str | None = None
    waiting_since_s: float | None = None
    """Unix time; of what a coordinator waits for."""
    given_up: str | None = None
    """Why the scheduler has its coordinator end it as failed."""
    is_cancel_requested: bool = False
    stop_request: str | None = None
    """What else its owner wants of it; see `stop_request.StopRequest`."""
    submitted: dict[str, Any] | None = Field(default=None, sa_column=Column(JSON))
    """The config as it was submitted, where its owner has changed it since, or exact versions of data sets stand for names."""
    limits_number: int = 0
    """How often its limits were changed (see `runs.changing`), or what is to be kept of its policies."""
    priority: int = 0
    """Those of a higher one go first in the queue for trainers."""
    retry_of: str | None = None
    """The run that this one goes on for."""
    sweep: str | None = None
    """The group of runs that it was submitted with."""
    on_disconnect: str = "detach"
    """Whether the run goes on without its client; see `runs.client_leases`."""
    client_lease_s: float | None = None
    """How long its client may be silent, where the run ends with its client."""
    client_until_s: float | None = None
    """On the store's clock: until when the client is taken to be there."""
    step: int = 0
    n_steps: int
    sft_step: int = 0
    reward: float | None = None
    error: str | None = None
    created_s: float = Field(index=True)
    started_s: float | None = None
    ended_s: float | None = None
    result: dict[str, Any] | None = Field(default=None, sa_column=Column(JSON))
    progress: dict[str, Any] | None = Field(default=None, sa_column=Column(JSON))
    """The coordinator's own counters; see `coordinator.state.coordinator.Progress`."""
    stream_offset: int = 0
    coordinator: str | None = None
    """Gateway that drives the run, also after its end, until its queues are gone; empty where one is to take it up."""
    epoch: int = 0
    """Of the coordinator's lease; see `coordinator.run_leases`."""
    leased_until_s: float = 0.0
    """On the store's clock."""
    revision: int = 0
    """Number of the newest change that was committed."""


class HistoryRow(SQLModel, table=True):
    """A state that a run entered."""

    __tablename__: ClassVar[Any] = "run_history"

    id: int | None = Field(default=None, primary_key=True)
    run_id: str = Field(index=True, foreign_key="run.id")
    state: str
    at_s: float
    reason: str | None = None


class ShareRow(SQLModel, table=True):
    """Somebody else may read a run."""

    __tablename__: ClassVar[Any] = "share"

    run_id: str = Field(primary_key=True, foreign_key="run.id")
    user: str = Field(primary_key=True, index=True)
    """Their name, or `*` for everybody."""
    created_s: float


class MetricsRow(SQLModel, table=True):
    """What a run reported after one step or evaluation; kept as long as the run."""

    __tablename__: ClassVar[Any] = "metrics_row"

    run_id: str = Field(primary_key=True, foreign_key="run.id")
    number: int = Field(primary_key=True)
    """1, 2, 3 and so on, in the order of the reports."""
    body: dict[str, Any] = Field(sa_column=Column(JSON, nullable=False))
    """The row as the API answers it."""
