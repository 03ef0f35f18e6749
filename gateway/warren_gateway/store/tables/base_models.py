"""Base models that users have uploaded, and who else may use them.

Invariant: a complete version never changes, and its `base_model` is of this version alone. One that is not complete is
being made, or was left by a gateway that died: nobody finds it, and it goes with its files when its owner makes another
after a day.
"""

from typing import Any, ClassVar

from sqlalchemy import BigInteger, Column, Index
from sqlmodel import Field, SQLModel


class BaseModelRow(SQLModel, table=True):
    """One version of a base model."""

    __tablename__: ClassVar[Any] = "base_model"
    __table_args__ = (Index("ix_base_model_owner_name", "owner", "name"),)

    id: str = Field(primary_key=True)
    """Names the folder of its files; with `warren/` before it GPU workers call it so."""
    owner: str
    name: str
    digest: str
    """SHA-256 of its `SHA256SUMS`."""
    architecture: str = ""
    n_parameters: int = Field(default=0, sa_column=Column(BigInteger, nullable=False))
    size_bytes: int = Field(sa_column=Column(BigInteger, nullable=False))
    created_s: float
    is_complete: bool = False


class BaseModelShareRow(SQLModel, table=True):
    """Somebody else may use a base model, all its versions."""

    __tablename__: ClassVar[Any] = "base_model_share"

    owner: str = Field(primary_key=True)
    name: str = Field(primary_key=True)
    user: str = Field(primary_key=True, index=True)
    """Their name, or `*` for everybody."""
    created_s: float
