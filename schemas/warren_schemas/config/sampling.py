"""How the policy's tokens are drawn."""

from typing import Annotated

from pydantic import Field

from warren_schemas.base import Frozen
from warren_schemas.config.numbers import NonNegativeFloat, NonNegativeInt, PositiveInt


class Sampling(Frozen):
    """How the policy's tokens are drawn."""

    temperature: NonNegativeFloat = 1.0
    """0 takes the most probable token each time."""
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Draw from the most probable tokens that together have this probability."""
    top_k: NonNegativeInt = 0
    """Draw from this many most probable tokens; 0 is off."""
    max_tokens: PositiveInt = 256
    """Most tokens of one turn."""
    stop: tuple[str, ...] = ()
    """Strings that end a turn."""
