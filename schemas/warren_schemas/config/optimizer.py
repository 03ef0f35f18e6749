"""The optimizer of a run."""

from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, model_validator

from warren_schemas.config.numbers import NonNegativeFloat, NonNegativeInt, PositiveFloat
from warren_schemas.text.written import Config


class ScheduleKind(StrEnum):
    CONSTANT = "constant"
    """Constant."""
    LINEAR = "linear"
    """Linear decay."""
    COSINE = "cosine"
    """Cosine decay (Loshchilov and Hutter 2017)."""


class OptimizerConfig(Config):
    """AdamW (Loshchilov and Hutter 2019)."""

    learning_rate: NonNegativeFloat = 1e-4
    """Learning rate after warmup and before decay."""
    warmup_steps: NonNegativeInt = 0
    """Warmup: steps over which the learning rate rises linearly from 0."""
    schedule: ScheduleKind = ScheduleKind.CONSTANT
    """How the learning rate decays from the end of warmup to the run's last step."""
    floor: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Final learning rate of a decaying schedule, as a fraction of `learning_rate`."""
    beta1: Annotated[float, Field(ge=0, lt=1)] = 0.9
    """Decay rate of the first moment."""
    beta2: Annotated[float, Field(ge=0, lt=1)] = 0.95
    """Decay rate of the second moment."""
    eps: PositiveFloat = 1e-8
    """Added to the denominator of the update."""
    weight_decay: NonNegativeFloat = 0.0
    """Decoupled weight decay."""
    clip_norm: NonNegativeFloat = 1.0
    """Gradient clipping: maximum norm; 0 is off."""

    @model_validator(mode="after")
    def _floor_of_a_fall(self) -> Self:
        if self.floor and self.schedule is ScheduleKind.CONSTANT:
            raise ValueError(
                "optimizer.floor is where a falling schedule ends, and a constant one doesn't fall;"
                " set optimizer.schedule to linear or cosine, or leave the floor out"
            )
        return self
