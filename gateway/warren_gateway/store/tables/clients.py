"""What clients ask of models that they drive themselves, and what they were answered.

Invariants
- A request is written in the transaction that accepts it; the key and the sequence number that it came with are
  never given to another one of its model.
- An outcome is written once, in the transaction that takes the trainer's answer in; the row stays for a while after
  it was delivered.
- A snapshot that is named is a policy that trainers keep, until its row is gone.
"""

from typing import Any, ClassVar

from sqlalchemy import JSON, BigInteger, Column, Index, LargeBinary, UniqueConstraint, text
from sqlmodel import Field, SQLModel


class RequestRow(SQLModel, table=True):
    """One op that a client asked for. It is open until it has an outcome."""

    __tablename__: ClassVar[Any] = "model_request"
    __table_args__ = (
        UniqueConstraint("model_id", "key"),
        UniqueConstraint("model_id", "sequence"),
        Index(
            "ix_model_request_open",
            "model_id",
            sqlite_where=text("done_s IS NULL"),
            postgresql_where=text("done_s IS NULL"),
        ),
    )

    number: int | None = Field(default=None, primary_key=True)
    """Order of arrival."""
    id: str = Field(unique=True)
    """The future that its client holds."""
    model_id: str = Field(foreign_key="model.id")
    key: str | None = None
    """The client's: the same one gives the same future."""
    sequence: int | None = Field(default=None, sa_column=Column(BigInteger, nullable=True))
    """Its place among the client's requests."""
    digest: str
    """Of what was asked: another one under the same key is refused."""
    kind: str
    asked: dict[str, Any] = Field(sa_column=Column(JSON, nullable=False))
    """All that is not part of the op; see `coordinator.state.client.Asked`."""
    body: bytes | None = Field(default=None, sa_column=Column(LargeBinary, nullable=True))
    """The op as a wire message, until it is in the log."""
    op: int | None = None
    """Its number in the op log."""
    outcome: bytes | None = Field(default=None, sa_column=Column(LargeBinary, nullable=True))
    """A wire message with an `OpResult`."""
    arrived_s: float
    done_s: float | None = Field(default=None, index=True)
    delivered_s: float | None = Field(default=None, index=True)
    """When its client was first told the outcome."""


class SnapshotRow(SQLModel, table=True):
    """A policy version that its client named, to be sampled from."""

    __tablename__: ClassVar[Any] = "snapshot"

    model_id: str = Field(primary_key=True, foreign_key="model.id")
    name: str = Field(primary_key=True)
    version: int
    url: str
    size_bytes: int = Field(sa_column=Column(BigInteger, nullable=False))
    created_s: float
    expires_s: float | None = Field(default=None, index=True)
    metadata_: dict[str, Any] | None = Field(
        default=None, sa_column=Column("metadata", JSON, nullable=True)
    )
