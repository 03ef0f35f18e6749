"""The optimizer of a run."""

from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, model_validator

from warren_schemas.config.numbers import NonNegativeFloat, NonNegativeInt, PositiveFloat
from warren_schemas.config.written import Config


class ScheduleKind(StrEnum):
    CONSTANT = "constant"
    """The same rate to the end."""
    LINEAR = "linear"
    """Falls in a straight line."""
    COSINE = "cosine"
    """Falls along half a wave of the cosine (Loshchilov and Hutter 2017)."""


class OptimizerConfig(Config):
    """AdamW (Loshchilov and Hutter 2019)."""

    learning_rate: NonNegativeFloat = 1e-4
    """Step size, after the rise and before the fall."""
    warmup_steps: NonNegativeInt = 0
    """Steps over which the learning rate rises from 0."""
    schedule: ScheduleKind = ScheduleKind.CONSTANT
    """How the learning rate falls from the end of the rise to the run's last step."""
    floor: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Share of the learning rate that a falling schedule ends at."""
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

    @model_validator(mode="after")
    def _floor_of_a_fall(self) -> Self:
        if self.floor and self.schedule is ScheduleKind.CONSTANT:
            raise ValueError(
                "optimizer.floor is where a falling schedule ends, and a constant one doesn't fall;"
                " set optimizer.schedule to linear or cosine, or leave the floor out"
            )
        return self
