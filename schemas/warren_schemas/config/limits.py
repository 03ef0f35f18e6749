"""When to save, when to stop, and how long to wait."""

from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, model_validator

from warren_schemas.base import Listed
from warren_schemas.config.numbers import (
    LARGEST_INT,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
)
from warren_schemas.text.written import Config

MAX_IN_FLIGHT = 100_000


class CheckpointConfig(Config):
    """Checkpoints hold everything needed to resume; they limit the work that is repeated after a crash."""

    every_steps: PositiveInt = 100
    """Steps between checkpoints (during SFT, SFT steps). A step without an update adds nothing to save."""
    keep_last: Annotated[int, Field(ge=2, le=LARGEST_INT)] = 2
    """Number of recent checkpoints to keep (minimum 2, so that a crash during a save can fall back to the
    previous one)."""
    keep_every: PositiveInt | None = None
    """Also keep older checkpoints at multiples of this many steps; a multiple of `every_steps`."""
    keep_best: NonNegativeInt = 0
    """Also keep this many older checkpoints with the highest reward (the mean of up to 16 batches before
    the checkpoint). All others are deleted."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.keep_every is not None and self.keep_every % self.every_steps:
            raise ValueError(
                f"keep_every must be a multiple of every_steps, and {self.keep_every} is none of"
                f" {self.every_steps}"
            )
        return self


class AlarmName(StrEnum):
    """What may be wrong with a run; see docs/training.md."""

    ENTROPY_HIGH = "entropy_high"
    ENTROPY_LOW = "entropy_low"
    SINGLE_CANDIDATE = "single_candidate"
    REWARD_CONSTANT = "reward_constant"
    ZERO_VARIANCE = "zero_variance"
    NOBODY_FINISHES = "nobody_finishes"
    FORMAT = "format"
    DISAGREEMENT = "disagreement"
    EXPLODING = "exploding"
    GATE_CLOSED = "gate_closed"
    ENVIRONMENT_FAILS = "environment_fails"


class LimitsConfig(Config):
    """When to stop, and how long to wait."""

    steps: Annotated[int, Field(ge=0, le=1_000_000_000)] = 100
    """Total steps of reinforcement learning: batches of `algorithm.groups_per_step` groups. A resumed run
    continues the count of its checkpoint, so this must be above the checkpoint's step. A step whose
    groups all have zero variance learns nothing from rewards, but counts. 0 is no reinforcement learning: an evaluation
    alone, or with `sft` fine-tuning alone."""
    stop_at_reward: float | None = None
    """Stop early once the mean reward of the last 16 steps reaches this; null is off."""
    warn_after_zero_variance_steps: PositiveInt = 8
    """Warn after this many consecutive steps in which all groups have zero variance, and again after twice
    as many, and so on. Such steps make no update, but for
    that of an entropy bonus or a KL penalty."""
    stop_after_zero_variance_steps: PositiveInt | None = None
    """Stop after this many such steps; null never stops."""
    stop_on: Listed[AlarmName] = ()
    """Alarms that end the run as failed, such as `exploding`; the others only warn."""
    stalled_after_s: PositiveFloat = 300.0
    """A run without progress for this long reports what it waits for, and again after twice as long."""
    wait_s: PositiveFloat | None = None
    """A run that waits for longer than this, in the queue, for a trainer, samplers or env workers, or for data sets
    that can't be read, fails with the reason of its wait; null waits for ever."""
    episode_s: PositiveFloat = 600.0
    """Time limit of an episode, which is then started again."""
    in_flight: Annotated[int, Field(ge=1, le=MAX_IN_FLIGHT)] = 1024
    """Maximum number of live episodes of the run. The rest of a batch waits, and other runs get their
    share of the workers."""
    episode_attempts: PositiveInt = 3
    """Maximum number of attempts at an episode that fails or is lost."""
    failed_groups: PositiveInt = 16
    """The run fails after this many consecutive groups without a usable episode. Until its first episode
    completes, each failed attempt counts as a failed member."""
