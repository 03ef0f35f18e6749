"""Messages on their way: they are written with the change that they announce."""

from typing import Any, ClassVar

from sqlalchemy import Column, LargeBinary
from sqlmodel import Field, SQLModel


class OutboxRow(SQLModel, table=True):
    """A message that must reach the broker; deleted once the broker has confirmed it."""

    __tablename__: ClassVar[Any] = "outbox"

    id: int | None = Field(default=None, primary_key=True)
    address_kind: str
    address: str
    body: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    message_id: str
    gateway: str = ""
    """Whose transaction posted it, and whose relay sends it."""
