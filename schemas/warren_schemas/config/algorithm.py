"""How trajectories become an update."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from warren_schemas.base import Frozen
from warren_schemas.config.groups import GroupPolicy, Retry
from warren_schemas.config.losses import PolicyLoss, PpoLoss
from warren_schemas.config.numbers import NonNegativeInt, PositiveInt


class AdvantageKind(StrEnum):
    GROUP_STD = "group_std"
    """(r - mean) / std of the group (GRPO, Shao et al. 2024)."""
    GROUP_MEAN = "group_mean"
    """r - mean of the group (Dr. GRPO, Liu et al. 2025)."""


class AlgorithmConfig(Frozen):
    """How trajectories become an update."""

    loss: PolicyLoss = Field(default_factory=PpoLoss)
    """`ppo` (the default) or `importance_sampling`."""
    advantage: AdvantageKind = AdvantageKind.GROUP_STD
    """How rewards of a group become advantages."""
    group_size: Annotated[int, Field(ge=2)] = 16
    """Episodes of one task that are compared with each other."""
    groups_per_step: PositiveInt = 4
    """Groups in one optimizer step."""
    max_staleness: NonNegativeInt = 2
    """Most optimizer steps between sampling an episode and training on it; 0 is on-policy."""
    normalize: Literal["tokens", "episodes", "none"] = "tokens"
    """What the summed loss of a step is divided by."""
    groups: GroupPolicy = Field(default_factory=Retry)
    """What becomes of a group in which episodes fail: `retry` (the default), `all` or `quorum`."""
