"""Users, their keys, and what they asked for."""

from typing import Any, ClassVar

from sqlalchemy import JSON, Column
from sqlmodel import Field, SQLModel


class User(SQLModel, table=True):
    """Somebody who holds keys; the row of a removed user stays, so that nobody else gets the name and what
    belongs to it."""

    __tablename__: ClassVar[Any] = "account"  # `user` is a word of PostgreSQL's own

    name: str = Field(primary_key=True)
    is_admin: bool = False
    created_s: float
    disabled_s: float | None = None
    removed_s: float | None = None
    limits: dict[str, Any] = Field(
        default_factory=dict, sa_column=Column(JSON, nullable=False, server_default="{}")
    )
    """What an admin set for them; what is not here is as the gateway's options say."""


class ApiKey(SQLModel, table=True):
    """A key as its hash; the key itself is shown once and kept nowhere."""

    __tablename__: ClassVar[Any] = "api_key"

    id: str = Field(primary_key=True)
    """The key's public half: what a person sees in lists."""
    owner: str = Field(index=True, foreign_key="account.name")
    name: str = "key"
    hash: str
    scopes: list[str] = Field(sa_column=Column(JSON, nullable=False))
    created_s: float
    expires_s: float | None = None
    last_used_s: float | None = None
    revoked_s: float | None = None


class AuditRow(SQLModel, table=True):
    """A request that was to change something, written before it was served."""

    __tablename__: ClassVar[Any] = "audit"

    id: int | None = Field(default=None, primary_key=True)
    at_s: float
    user: str = Field(index=True)
    key: str
    action: str
    path: str
    status: int | None = None
    """What was answered; None while it is not."""
