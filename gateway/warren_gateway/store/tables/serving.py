"""Names under which models are served.

Invariants
- Of an owner's name at most one row is in force, so a name points to one thing at any moment.
- A row that is not in force any more stays for as long as requests may be under way that began with it.
"""

from typing import Any, ClassVar

from sqlalchemy import Index, text
from sqlmodel import Field, SQLModel

_IN_FORCE = text("until_s IS NULL")


class ServedRow(SQLModel, table=True):
    """What a name points to, or pointed to: a base model, an adapter, or a policy of a run."""

    __tablename__: ClassVar[Any] = "served"
    __table_args__ = (
        Index(
            "ix_served_in_force",
            "owner",
            "name",
            unique=True,
            sqlite_where=_IN_FORCE,
            postgresql_where=_IN_FORCE,
        ),
    )

    id: int | None = Field(default=None, primary_key=True)
    owner: str = Field(index=True)
    name: str
    base_model: str
    run_id: str | None = Field(default=None, index=True, foreign_key="run.id")
    """None: the base model itself, or an adapter."""
    step: int | None = None
    """The run's, of the policy; None where the name follows the run, or is a base model's."""
    version: int | None = None
    url: str | None = None
    """Of the policy's files, which are kept; None where there are none: it is the base model."""
    adapter_id: str | None = Field(default=None, index=True)
    """An adapter that was uploaded."""
    since_s: float
    until_s: float | None = None
    """When it pointed elsewhere; None: it is in force."""
