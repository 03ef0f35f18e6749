"""What the scheduler decides on: the jobs, and what it keeps from one decision to the next."""

from typing import Any, ClassVar

from sqlalchemy import JSON, BigInteger, Column
from sqlmodel import Field, SQLModel


class JobRow(SQLModel, table=True):
    """What a run's model needs of a trainer, and how far it is with getting one.

    `state`: `queued`, `admitted` (the scheduler lets its message go), `taken` (a trainer has the lease),
    `over`. A job whose trainer is lost is queued again.
    """

    __tablename__: ClassVar[Any] = "job"

    number: int | None = Field(default=None, primary_key=True)
    """Order of submission."""
    run_id: str = Field(unique=True, foreign_key="run.id")
    model_id: str
    owner: str
    base_model: str
    is_full: bool
    n_gpus: int = 1
    memory_bytes: int | None = Field(default=None, sa_column=Column(BigInteger, nullable=True))
    plays_at_once: bool
    """Without samplers and its environments it could not begin."""
    environments: list[tuple[str, str]] = Field(sa_column=Column(JSON, nullable=False))
    """Name, and who must play it: an owner, or empty for the deployment."""
    state: str = Field(default="queued", index=True)
    queued_s: float
    wait_s: float | None = None
    """`limits.wait_s` of its run."""
    admitted_s: float | None = None
    taken_s: float | None = None
    over_s: float | None = None
    worker: str | None = None
    is_interrupted: bool = False
    """It lost its trainer, and goes first."""
    is_held_back: bool = False
    """Its coordinator has nothing to do for a trainer now: it is paused, or waits for its environments."""


class SchedulerRow(SQLModel, table=True):
    """One row: who decides has its lock."""

    __tablename__: ClassVar[Any] = "scheduler"

    id: int = Field(primary_key=True)
    reserved: dict[str, str] = Field(sa_column=Column(JSON, nullable=False))
    """Workers that are kept for a model, from one decision to the next."""
    loading: dict[str, tuple[str, float, int]] = Field(
        default_factory=dict, sa_column=Column(JSON, nullable=False, server_default="{}")
    )
    """Of each worker that was told to load a base model: which one, when (Unix time), and how many GPUs the worker has."""
    evaluated: dict[str, list[float]] = Field(
        default_factory=dict, sa_column=Column(JSON, nullable=False, server_default="{}")
    )
    """By owner: when (Unix time) base models were loaded for evaluations alone."""
