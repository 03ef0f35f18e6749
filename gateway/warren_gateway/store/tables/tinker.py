"""Sessions of Tinker's clients, the samplers that they opened in them, and the samples that they asked for.

Invariants
- A sampler's id is made of its session's and of its number there, so that who asks twice has one.
- The policy of a sampler never changes. One that has no `version` says that it moves on, and then is the oldest that
  may be sampled from.
- Completions of a sampler are numbered in the order of their commits.
"""

from typing import Any, ClassVar

from sqlalchemy import JSON, BigInteger, Boolean, Column, Index, LargeBinary, false, text
from sqlmodel import Field, SQLModel

_IS_UNCOUNTED = text("used IS NOT NULL")


class TinkerSession(SQLModel, table=True):
    __tablename__: ClassVar[Any] = "tinker_session"

    id: str = Field(primary_key=True)
    owner: str = Field(index=True, foreign_key="account.name")
    created_s: float
    seen_s: float
    """When its client was last heard of."""
    finished_s: float | None = None
    finish_reason: str | None = None
    """As its client told it."""
    sdk_version: str = ""
    display_name: str | None = None
    project: str | None = None
    tags: list[str] = Field(default_factory=list, sa_column=Column(JSON, nullable=False))
    metadata_: dict[str, Any] | None = Field(
        default=None, sa_column=Column("metadata", JSON, nullable=True)
    )


class TinkerSampler(SQLModel, table=True):
    __tablename__: ClassVar[Any] = "tinker_sampler"

    id: str = Field(primary_key=True)
    session_id: str = Field(index=True, foreign_key="tinker_session.id")
    base_model: str
    model_path: str | None = None
    """Of a checkpoint; None: the base model, or a snapshot without a name."""
    policy: dict[str, Any] = Field(sa_column=Column(JSON, nullable=False))
    """A `PolicyRef`."""
    model_id: str = Field(default="", index=True, sa_column_kwargs={"server_default": ""})
    """The policy's, and the version where it stays."""
    version: int | None = None
    created_s: float
    used_s: float = Field(default=0.0, sa_column_kwargs={"server_default": "0"})
    """On the store's clock: when it was opened, or a sample of it was done last."""
    n_completed: int = Field(
        default=0, sa_column=Column(BigInteger, nullable=False, server_default="0")
    )
    """Number of the newest completion."""
    is_polled: bool = Field(
        default=False, sa_column=Column(Boolean, nullable=False, server_default=false())
    )
    """Its client asks for the completions of all its samples at once."""


class TinkerDownload(SQLModel, table=True):
    """Something that whoever has its token may download for a while, without a key."""

    __tablename__: ClassVar[Any] = "tinker_download"

    id: str = Field(primary_key=True)
    """Hash of the token, which is kept nowhere."""
    owner: str = Field(foreign_key="account.name")
    folder: str | None = None
    """URL of a checkpoint's folder; None: the timeline of `session_id`."""
    model_id: str | None = None
    kept: dict[str, Any] | None = Field(default=None, sa_column=Column(JSON, nullable=True))
    """Which checkpoint it is of: the model and a `SavedName`."""
    session_id: str | None = None
    expires_s: float = Field(index=True)


class TinkerSample(SQLModel, table=True):
    """A sample that was asked for, until a while after it has an outcome."""

    __tablename__: ClassVar[Any] = "tinker_sample"
    __table_args__ = (
        Index("ix_tinker_sample_completion", "sampler", "completion"),
        Index(
            "ix_tinker_sample_used",
            "id",
            sqlite_where=_IS_UNCOUNTED,
            postgresql_where=_IS_UNCOUNTED,
        ),
    )

    id: str = Field(primary_key=True)
    """The future that its client holds: the sampler's id and the number of the sample."""
    sampler: str = Field(default="", sa_column_kwargs={"server_default": ""})
    clone: int = Field(default=0, sa_column=Column(BigInteger, nullable=False, server_default="0"))
    """Which copy of the sampler has asked; each hears of its own."""
    completion: int | None = Field(default=None, sa_column=Column(BigInteger, nullable=True))
    """Its number among the sampler's, from when it has an outcome until its client has heard of it."""
    owner: str = Field(foreign_key="account.name")
    asked: bytes | None = Field(default=None, sa_column=Column(LargeBinary, nullable=True))
    """The request's body, while it has no outcome: any gateway can ask the samplers again."""
    holder: str = Field(index=True)
    """The gateway that has asked the samplers."""
    held_until_s: float
    """Unless it says more until then, another gateway may take it."""
    outcome: bytes | None = Field(default=None, sa_column=Column(LargeBinary, nullable=True))
    failure: str | None = None
    """None beside no outcome, of what is done: it was lost, or is no longer kept."""
    is_users: bool = False
    """The same question would fail again."""
    done_s: float | None = Field(default=None, index=True)
    used: bytes | None = Field(default=None, sa_column=Column(LargeBinary, nullable=True))
    """A `SampleUse` as JSON, from when it has an outcome until that is counted."""
