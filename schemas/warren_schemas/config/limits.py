"""When to save, when to stop, and how long to wait."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from warren_schemas.config.numbers import NonNegativeInt, PositiveFloat, PositiveInt
from warren_schemas.config.written import Config

MAX_IN_FLIGHT = 100_000


class CheckpointConfig(Config):
    """Checkpoints hold all that training needs to go on; they bound what is done again after a crash."""

    every_steps: PositiveInt = 100
    """Optimizer steps from one checkpoint to the next."""
    keep_last: Annotated[int, Field(ge=2)] = 2
    """The newest checkpoints are kept. At least 2: the one before the newest is the way back when a
    trainer dies while it saves."""
    keep_every: PositiveInt | None = None
    """Of older ones, those at multiples of this many optimizer steps are kept as well; a multiple of
    `every_steps`."""
    keep_best: NonNegativeInt = 0
    """Of older ones, this many with the highest reward are kept as well: the mean of up to 16 batches
    before the checkpoint. All others are deleted."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.keep_every is not None and self.keep_every % self.every_steps:
            raise ValueError(
                f"keep_every must be a multiple of every_steps, and {self.keep_every} is none of"
                f" {self.every_steps}"
            )
        return self


class LimitsConfig(Config):
    """When to stop, and how long to wait."""

    steps: Annotated[int, Field(ge=1, le=1_000_000_000)] = 100
    """Optimizer steps of reinforcement learning."""
    stop_at_reward: float | None = None
    """End early once the mean reward of the last 16 batches reaches this."""
    episode_s: PositiveFloat = 600.0
    """An episode that has not ended by then is started again."""
    in_flight: Annotated[int, Field(ge=1, le=MAX_IN_FLIGHT)] = 1024
    """Most episodes of the run in the air at once; the rest of a batch waits, and other runs get
    their share of the workers."""
    episode_attempts: PositiveInt = 3
    """How often an episode is tried when it fails or is lost."""
    failed_groups: PositiveInt = 16
    """The run fails after this many groups in a row without one usable episode. As long as none of its
    episodes has completed, each failure of an environment counts as a member, tried again or not."""
