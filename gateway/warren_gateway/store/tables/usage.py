"""What runs and users have used."""

from typing import Any, ClassVar

from sqlalchemy import BigInteger, Column
from sqlmodel import Field, SQLModel


class UsageRow(SQLModel, table=True):
    """What a run has used on one day; it stays when the run is deleted."""

    __tablename__: ClassVar[Any] = "usage"

    run_id: str = Field(primary_key=True)
    day: int = Field(primary_key=True)
    """Days since 1970, UTC."""
    owner: str = Field(index=True)
    training_gpu_s: float = 0.0
    sampling_gpu_s: float = 0.0
    n_tokens_trained: int = Field(default=0, sa_column=Column(BigInteger, nullable=False))
    n_tokens_sampled: int = Field(default=0, sa_column=Column(BigInteger, nullable=False))
    n_episodes: int = 0


class SamplingUse(SQLModel, table=True):
    """What a session of Tinker's protocol has sampled on one day; it stays when the session or the run is deleted."""

    __tablename__: ClassVar[Any] = "sampling_use"

    session_id: str = Field(primary_key=True)
    run_id: str = Field(primary_key=True)
    """Whose weights those were, perhaps another owner's run; empty for a base model."""
    base_model: str = Field(primary_key=True)
    day: int = Field(primary_key=True)
    """Days since 1970, UTC."""
    owner: str = Field(index=True)
    """Of the session."""
    n_tokens_prompt: int = Field(default=0, sa_column=Column(BigInteger, nullable=False))
    n_tokens_sampled: int = Field(default=0, sa_column=Column(BigInteger, nullable=False))
    gpu_s: float = 0.0


class RecentUse(SQLModel, table=True):
    """GPU-seconds of a user that halve with time: by these the scheduler gives turns."""

    __tablename__: ClassVar[Any] = "recent_use"

    owner: str = Field(primary_key=True)
    gpu_s: float = 0.0
    """As it was at `at_s`."""
    at_s: float = 0.0
