"""A critic: a value head beside the policy, for PPO as it was written."""

from typing import Annotated

from pydantic import Field

from warren_schemas.config.numbers import PositiveFloat
from warren_schemas.text.written import Config


class Critic(Config):
    """Estimates future rewards, for generalized advantage estimation (GAE, Schulman et al. 2016)."""

    gamma: Annotated[float, Field(ge=0, le=1)] = 1.0
    """Discount factor per token."""
    gae_lambda: Annotated[float, Field(ge=0, le=1)] = 0.95
    """GAE's lambda: 1 uses the rewards alone, 0 the critic's next value."""
    value_coefficient: PositiveFloat = 0.5
    """Weight of the critic's loss, relative to the policy's."""
    value_clip: PositiveFloat | None = None
    """Largest error of a value that has an effect: larger ones have the gradient of this one (Huber 1964);
    null is off."""
