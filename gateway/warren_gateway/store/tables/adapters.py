"""LoRA adapters that users have uploaded, and who else may use them.

Invariant: a complete version never changes. One that is not complete is being made, or was left by a gateway that died:
nobody finds it, and it goes with its files when its owner makes another after a day.
"""

from typing import Any, ClassVar

from sqlalchemy import JSON, BigInteger, Column, Index
from sqlmodel import Field, SQLModel


class AdapterRow(SQLModel, table=True):
    """One version of an adapter."""

    __tablename__: ClassVar[Any] = "adapter"
    __table_args__ = (Index("ix_adapter_owner_name", "owner", "name"),)

    id: str = Field(primary_key=True)
    """Names the folder of its files; to samplers, the model whose policy it is."""
    owner: str
    name: str
    digest: str
    sha256: str
    """Of the weights."""
    base_model: str
    config: dict[str, Any] = Field(sa_column=Column(JSON, nullable=False))
    """What is kept of `adapter_config.json`."""
    targets: list[str] = Field(sa_column=Column(JSON, nullable=False))
    """Last names of the modules that the weights are on."""
    url: str
    size_bytes: int = Field(sa_column=Column(BigInteger, nullable=False))
    created_s: float
    is_complete: bool = False


class AdapterShareRow(SQLModel, table=True):
    """Somebody else may use an adapter, all its versions."""

    __tablename__: ClassVar[Any] = "adapter_share"

    owner: str = Field(primary_key=True)
    name: str = Field(primary_key=True)
    user: str = Field(primary_key=True, index=True)
    """Their name, or `*` for everybody."""
    created_s: float
