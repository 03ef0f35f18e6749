"""How the policy's tokens are drawn."""

from typing import Annotated

from pydantic import Field

from warren_schemas.base import Listed
from warren_schemas.config.numbers import (
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
)
from warren_schemas.config.written import Config

TopP = Annotated[float, Field(gt=0, le=1)]
MinP = Annotated[float, Field(ge=0, lt=1)]


class Sampling(Config):
    """How the policy's tokens are drawn."""

    temperature: NonNegativeFloat = 1.0
    """0 takes the most probable token each time."""
    top_p: TopP = 1.0
    """Draw from the most probable tokens that together have this probability."""
    top_k: NonNegativeInt = 0
    """Draw from this many most probable tokens; 0 is off."""
    min_p: MinP = 0.0
    """Draw from tokens at least this probable, relative to the most probable one; 0 is off."""
    repetition_penalty: PositiveFloat = 1.0
    """Above 1 makes tokens that were seen before less probable (Keskar et al. 2019); 1 is off."""
    max_tokens: PositiveInt = 256
    """Most tokens of one turn."""
    max_total_tokens: PositiveInt | None = None
    """Most tokens of a whole episode, what the policy was shown included; the episode is cut there
    (`truncated`). Null: as many as the model can hold."""
    stop: Listed[str] = ()
    """Strings that end a turn."""
    thinking: bool | None = None
    """Handed to the chat template as `enable_thinking`; null leaves it to the template."""


class SamplingChanges(Config):
    """What differs from the run's `sampling`; null leaves it as it is there."""

    temperature: PositiveFloat | None = None
    """Divides the logits."""
    top_p: TopP | None = None
    """Draw from the most probable tokens that together have this probability."""
    top_k: NonNegativeInt | None = None
    """Draw from this many most probable tokens; 0 is off."""
    min_p: MinP | None = None
    """Draw from tokens at least this probable, relative to the most probable one."""
    repetition_penalty: PositiveFloat | None = None
    """Above 1 makes tokens that were seen before less probable."""
    max_tokens: PositiveInt | None = None
    """Most tokens of one turn."""
    max_total_tokens: PositiveInt | None = None
    """Most tokens of a whole episode."""
    stop: Listed[str] | None = None
    """Strings that end a turn."""
    thinking: bool | None = None
    """Handed to the chat template as `enable_thinking`."""

    def applied_to(self, sampling: Sampling) -> Sampling:
        return sampling.model_copy(update=self.model_dump(exclude_none=True))
