"""Groups of episodes that are in flight or were consumed."""

from typing import Any, ClassVar

from sqlalchemy import JSON, Column, Index
from sqlmodel import Field, SQLModel


class GroupRow(SQLModel, table=True):
    """A group of episodes; the id of a member is `<group>.<member>`."""

    __tablename__: ClassVar[Any] = "episode_group"
    __table_args__ = (
        Index("ix_group_open", "run_id", "is_open"),
        Index("ix_group_evaluation", "run_id", "evaluation"),
    )

    id: str = Field(primary_key=True)
    run_id: str = Field(foreign_key="run.id")
    number: int
    purpose: str
    environment: int
    """Index into the config's environments."""
    task_index: int
    level: int | None = None
    """Of its task, where the run has a curriculum of levels."""
    evaluation: int | None = None
    """Number of the run's evaluation that it is part of."""
    task_number: int | None = None
    """Which task of its split's data it plays, what it is called, and of what category; written when the group is consumed."""
    task_id: str | None = None
    category: str | None = None
    n_members: int
    min_version: int
    deadline_s: float
    is_open: bool = True
    """Some member has not ended, or the group waits to be consumed."""
    attempts: list[int] = Field(sa_column=Column(JSON, nullable=False))
    outcomes: list[dict[str, Any]] | None = Field(default=None, sa_column=Column(JSON))
    """What became of each member, written when the group is consumed."""
