"""A critic: a value head beside the policy, for PPO as it was written."""

from typing import Annotated

from pydantic import Field

from warren_schemas.config.numbers import PositiveFloat
from warren_schemas.config.written import Config


class Critic(Config):
    """Learns what rewards are still to come, and tells advantages by it (GAE, Schulman et al. 2016)."""

    gamma: Annotated[float, Field(ge=0, le=1)] = 1.0
    """What a reward is worth one token before it is given."""
    gae_lambda: Annotated[float, Field(ge=0, le=1)] = 0.95
    """1 trusts the rewards alone, 0 the critic's next value."""
    value_coefficient: PositiveFloat = 0.5
    """What the critic's error counts, next to the policy's loss."""
    value_clip: PositiveFloat | None = None
    """A value's error beyond this pulls no harder than this (Huber 1964); null is off."""
