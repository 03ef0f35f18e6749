"""What a model is, as the trainer that makes it must know."""

from warren_schemas.base import Frozen
from warren_schemas.config import (
    FullUpdate,
    NonNegativeInt,
    Update,
)

__all__ = ["ModelSpec", "is_full"]


class ModelSpec(Frozen):
    """What a trainer must know to make the model from nothing."""

    base_model: str
    update: Update
    seed: NonNegativeInt = 0
    deterministic: bool = False
    """Never share a batch with other models, which would change the last bits."""
    critic: bool = False
    """Whether the model has a value head."""
    start_adapter_url: str | None = None
    """Where the adapter lies that `update.start_adapter` names, if a user uploaded it."""


def is_full(spec: ModelSpec) -> bool:
    """All weights are trained, so a worker can hold no other model beside it."""
    return isinstance(spec.update, FullUpdate)
