"""The optimizer of a run."""

from typing import Annotated

from pydantic import Field

from warren_schemas.base import Frozen
from warren_schemas.config.numbers import NonNegativeFloat, NonNegativeInt, PositiveFloat


class OptimizerConfig(Frozen):
    """AdamW (Loshchilov and Hutter 2019)."""

    learning_rate: NonNegativeFloat = 1e-4
    """Step size, after the rise."""
    warmup_steps: NonNegativeInt = 0
    """Steps over which the learning rate rises from 0."""
    beta1: Annotated[float, Field(ge=0, lt=1)] = 0.9
    """Decay of the mean of the gradient."""
    beta2: Annotated[float, Field(ge=0, lt=1)] = 0.95
    """Decay of the mean of its square."""
    eps: PositiveFloat = 1e-8
    """Added to the root of the mean square."""
    weight_decay: NonNegativeFloat = 0.0
    """Decoupled weight decay."""
    clip_norm: NonNegativeFloat = 1.0
    """Largest norm of the gradient; 0 is off."""
