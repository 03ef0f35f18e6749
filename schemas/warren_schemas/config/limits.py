"""When to save, when to stop, and how long to wait."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from warren_schemas.config.numbers import NonNegativeInt, PositiveFloat, PositiveInt
from warren_schemas.config.written import Config

MAX_IN_FLIGHT = 100_000


class CheckpointConfig(Config):
    """Checkpoints hold all that training needs to go on; they bound what is done again after a crash."""

    every_steps: PositiveInt = 100
    """Steps from one checkpoint to the next; in SFT, supervised steps. A step that made no update
    adds nothing to save."""
    keep_last: Annotated[int, Field(ge=2)] = 2
    """The newest checkpoints are kept. At least 2: the one before the newest is the way back when a
    trainer dies while it saves."""
    keep_every: PositiveInt | None = None
    """Of older ones, those at multiples of this many steps are kept as well; a multiple of `every_steps`."""
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
    """Steps of reinforcement learning in all: batches of `algorithm.groups_per_step` groups. A run that
    resumes counts on from its checkpoint, so this must be above the checkpoint's step. A step whose
    groups all have zero variance makes no update, and counts."""
    stop_at_reward: float | None = None
    """End early once the mean reward of the last 16 steps reaches this."""
    warn_after_zero_variance_steps: PositiveInt = 8
    """Warn after this many steps in a row in which no group told its episodes apart, for all its rewards
    were the same; again after twice as many, and so on. Such steps make no update."""
    stop_after_zero_variance_steps: PositiveInt | None = None
    """End after this many such steps in a row; null goes on."""
    stalled_after_s: PositiveFloat = 300.0
    """A run of which nothing has moved for this long says what it waits for, and again after twice that."""
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
