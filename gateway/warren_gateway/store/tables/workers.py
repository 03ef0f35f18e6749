"""What admins want of workers; that they are there, and what they do, their heartbeats tell."""

from typing import Any, ClassVar

from sqlmodel import Field, SQLModel


class DrainedWorker(SQLModel, table=True):
    """A worker that is to take nothing new. Its id is that of a process, so a restarted one is another worker."""

    __tablename__: ClassVar[Any] = "drained_worker"

    worker: str = Field(primary_key=True)
    since_s: float
