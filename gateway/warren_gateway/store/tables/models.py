"""Models with their leases, op logs and checkpoints.

Invariants
- `op` is append-only: numbers of a model run 1, 2, 3 and so on, and a body never changes.
- `model.epoch` only rises; whoever acts for an older epoch is ignored.
"""

from typing import Any, ClassVar

from sqlalchemy import JSON, BigInteger, Column, Index, LargeBinary, text
from sqlmodel import Field, SQLModel


class Model(SQLModel, table=True):
    """A model and its lease."""

    __tablename__: ClassVar[Any] = "model"
    __table_args__ = (
        Index(
            "ix_model_with_policies",
            "run_id",
            sqlite_where=text("policy_bytes > 0"),
            postgresql_where=text("policy_bytes > 0"),
        ),
    )

    id: str = Field(primary_key=True)
    run_id: str = Field(index=True, foreign_key="run.id")
    base_model: str
    spec: dict[str, Any] = Field(sa_column=Column(JSON, nullable=False))
    is_closed: bool = False
    epoch: int = 0
    holder: str | None = None
    """Worker that holds the lease of `epoch`."""
    granted_s: float | None = None
    is_opened: bool = False
    """The holder has answered that it has the model."""
    last_op: int = 0
    """Number of the newest op in the log."""
    done_op: int = 0
    """All ops up to this one are answered."""
    version: int = 0
    policy_version: int = 0
    policy_url: str | None = None
    policies: list[tuple[int, int]] = Field(
        default_factory=list, sa_column=Column(JSON, nullable=False)
    )
    """Step and version of the newest published policies, oldest first."""
    policy_bytes: int = Field(
        default=0, sa_column=Column(BigInteger, nullable=False, server_default="0")
    )
    """Of the newest published policy."""
    live_version: int | None = None
    """Of a client's model: the newest version that was published for samplers that move on; None: there was none."""
    live_url: str | None = None
    adapter_id: str | None = Field(default=None, index=True)
    """The uploaded adapter that it starts with; that one stays until the run is over."""
    checkpoint_op: int = 0
    checkpoint_url: str | None = None
    is_clients: bool = False
    """A client drives it, with requests; else its run's coordinator."""
    metadata_: dict[str, Any] | None = Field(
        default=None, sa_column=Column("metadata", JSON, nullable=True)
    )
    """Its client's own."""


class Checkpoint(SQLModel, table=True):
    """A checkpoint that is kept."""

    __tablename__: ClassVar[Any] = "checkpoint"

    model_id: str = Field(primary_key=True, foreign_key="model.id")
    name: str = Field(primary_key=True)
    op: int
    """Number of the op that saved it."""
    version: int
    step: int
    """Of reinforcement learning; 0 in SFT."""
    reward: float | None = None
    """Mean over the newest batches."""
    url: str
    size_bytes: int = Field(sa_column=Column(BigInteger, nullable=False))
    created_s: float
    expires_s: float | None = Field(default=None, index=True)
    """When it is deleted, where its client has said so."""
    metadata_: dict[str, Any] | None = Field(
        default=None, sa_column=Column("metadata", JSON, nullable=True)
    )
    """Its client's own."""
    is_automatic: bool = False
    """Of a client's model: nobody asked for it; it is kept until there is a newer one."""


class OpRow(SQLModel, table=True):
    __tablename__: ClassVar[Any] = "op"

    model_id: str = Field(primary_key=True, foreign_key="model.id")
    number: int = Field(primary_key=True)
    kind: str
    item_id: str = ""
    """Of the op's envelope: no other op has it, whatever its number."""
    body: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    """The op as a wire message of one item."""
    outcome: dict[str, Any] | None = Field(default=None, sa_column=Column(JSON))
