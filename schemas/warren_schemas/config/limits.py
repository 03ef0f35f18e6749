"""When to save, when to stop, and how long to wait."""

from typing import Annotated

from pydantic import Field

from warren_schemas.base import Frozen
from warren_schemas.config.numbers import PositiveFloat, PositiveInt


class CheckpointConfig(Frozen):
    """Checkpoints hold all that training needs to go on; they bound what is done again after a crash."""

    every_steps: PositiveInt = 100
    """Optimizer steps from one checkpoint to the next."""
    keep_last: Annotated[int, Field(ge=2)] = 2
    """Older checkpoints are deleted. At least 2: the one before the newest is the way back when a
    trainer dies while it saves."""


class LimitsConfig(Frozen):
    """When to stop, and how long to wait."""

    steps: Annotated[int, Field(ge=1, le=1_000_000_000)] = 100
    """Optimizer steps of reinforcement learning."""
    stop_at_reward: float | None = None
    """End early once the mean reward of the last 16 batches reaches this."""
    episode_s: PositiveFloat = 600.0
    """An episode that has not ended by then is started again."""
    in_flight: PositiveInt = 1024
    """Most episodes of the run in the air at once; the rest of a batch waits, and other runs get
    their share of the workers."""
    episode_attempts: PositiveInt = 3
    """How often an episode is tried when it fails or is lost."""
    failed_groups: PositiveInt = 16
    """The run fails after this many groups in a row without one usable episode."""
