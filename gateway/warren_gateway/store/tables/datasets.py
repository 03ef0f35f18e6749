"""Data sets: versions, who else may read them, and what is being uploaded.

Invariants
- A complete version never changes. One that is not complete is an upload under way, or one whose gateway died: it
  belongs to nobody's data sets and goes after a day with its files.
- `dataset_upload.received_bytes` is how far the parts of a file reach without a gap.
"""

from typing import Any, ClassVar

from sqlalchemy import JSON, BigInteger, Column, Index
from sqlmodel import Field, SQLModel


class DatasetRow(SQLModel, table=True):
    """One version of a data set."""

    __tablename__: ClassVar[Any] = "dataset"
    __table_args__ = (Index("ix_dataset_owner_name", "owner", "name"),)

    id: str = Field(primary_key=True)
    """Names the folder of its files."""
    owner: str
    name: str
    digest: str = Field(index=True)
    kind: str
    splits: list[dict[str, Any]] = Field(sa_column=Column(JSON, nullable=False))
    size_bytes: int = Field(sa_column=Column(BigInteger, nullable=False))
    created_s: float
    is_complete: bool = False


class DatasetShareRow(SQLModel, table=True):
    """Somebody else may read a data set, all its versions."""

    __tablename__: ClassVar[Any] = "dataset_share"

    owner: str = Field(primary_key=True)
    name: str = Field(primary_key=True)
    user: str = Field(primary_key=True, index=True)
    """Their name, or `*` for everybody."""
    created_s: float


class DatasetUploadRow(SQLModel, table=True):
    """A file that is being uploaded."""

    __tablename__: ClassVar[Any] = "dataset_upload"

    owner: str = Field(primary_key=True)
    sha256: str = Field(primary_key=True)
    received_bytes: int = Field(default=0, sa_column=Column(BigInteger, nullable=False))
    touched_s: float


class RunDatasetRow(SQLModel, table=True):
    """A run reads a version: as long as it is not over, the version stays."""

    __tablename__: ClassVar[Any] = "run_dataset"

    run_id: str = Field(primary_key=True, foreign_key="run.id")
    dataset_id: str = Field(primary_key=True, index=True)
