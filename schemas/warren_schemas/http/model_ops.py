"""The ops of a model that a client trains, as they are looked at by people.

`__all__` is what users of the SDK hold; `warren` exports it as it is.
"""

from typing import Literal

from pydantic import Field

from warren_schemas.base import Frozen

__all__ = ["ModelOp"]


class ModelOp(Frozen):
    """What a client has asked for, and what came of it."""

    future: str
    kind: str
    """As the trainer calls it: `forward_backward`, `optim_step`, `publish_policy` and so on."""
    state: Literal["waiting", "with_trainer", "done", "failed"]
    """`waiting`: for its turn, for the checkpoint that it names, or for room before the trainer."""
    arrived_s: float
    """Unix time."""
    done_s: float | None = None
    metrics: dict[str, float] = Field(default_factory=dict)
    """As the trainer told them."""
    reason: str | None = None
    """Why it failed."""


class ModelOpList(Frozen):
    """Newest first."""

    ops: tuple[ModelOp, ...]
