"""How the policy samples tokens.

In training, the trainer computes its logprobs of the same distribution: with the temperature, with
the penalty, and over the tokens that top-k, top-p and min-p left (see `sampling_mask`).
"""

from typing import Annotated

from pydantic import Field

from warren_schemas.base import Listed
from warren_schemas.config.numbers import (
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
)
from warren_schemas.fields.limits import MAX_KEPT
from warren_schemas.text.written import Config

TopP = Annotated[float, Field(gt=0, le=1)]
MinP = Annotated[float, Field(ge=0, lt=1)]
RepetitionPenalty = Annotated[float, Field(ge=0.01, le=100)]
"""It divides logits: with one near 0 they would not be finite, and the model would seem broken."""


class Sampling(Config):
    """How the policy samples tokens."""

    temperature: NonNegativeFloat = 1.0
    """Divides the logits; 0 is greedy."""
    top_p: TopP = 1.0
    """Nucleus sampling: sample from the most probable tokens with this total probability; 1 is off. In
    training from 256 of them at most."""
    top_k: NonNegativeInt = 0
    """Sample from this many most probable tokens; 0 is off. At most 256 in training."""
    min_p: MinP = 0.0
    """Sample from tokens with at least this probability relative to the most probable one; 0 is off. In
    training from 256 of them at most."""
    repetition_penalty: RepetitionPenalty = 1.0
    """Above 1 makes repeated tokens less probable (Keskar et al. 2019); 1 is off."""
    max_tokens: PositiveInt = 256
    """Maximum number of tokens per turn."""
    max_total_tokens: PositiveInt | None = None
    """Maximum number of tokens per episode, prompts and observations included; longer episodes are
    truncated. Null: the model's maximum."""
    stop: Listed[str] = ()
    """Stop strings, which end a turn."""
    thinking: bool | None = None
    """Passed to the chat template as `enable_thinking`; null uses the template's default."""

    @property
    def is_truncated(self) -> bool:
        """Whether tokens are sampled from a part of the vocabulary."""
        is_cut = self.top_k > 0 or self.top_p < 1.0 or self.min_p > 0
        return is_cut and self.temperature > 0

    @property
    def untrainable(self) -> str | None:
        """Why nothing can be learned from what is sampled like this."""
        if self.top_k > MAX_KEPT:
            return (
                f"top_k: {self.top_k} is above {MAX_KEPT}, the most tokens that are kept with each"
                " sampled one so that the trainer can compute the same distribution; lower it, or 0"
                " for the whole vocabulary"
            )
        return None


class SamplingChanges(Config):
    """Overrides of the run's `sampling`; null keeps the run's value."""

    temperature: PositiveFloat | None = None
    """Divides the logits."""
    top_p: TopP | None = None
    """Nucleus sampling: sample from the most probable tokens with this total probability; 1 is off."""
    top_k: NonNegativeInt | None = None
    """Sample from this many most probable tokens; 0 is off."""
    min_p: MinP | None = None
    """Sample from tokens with at least this probability relative to the most probable one."""
    repetition_penalty: RepetitionPenalty | None = None
    """Above 1 makes repeated tokens less probable."""
    max_tokens: PositiveInt | None = None
    """Maximum number of tokens per turn."""
    max_total_tokens: PositiveInt | None = None
    """Maximum number of tokens per episode."""
    stop: Listed[str] | None = None
    """Stop strings, which end a turn."""
    thinking: bool | None = None
    """Passed to the chat template as `enable_thinking`."""

    def applied_to(self, sampling: Sampling) -> Sampling:
        return sampling.model_copy(update=self.model_dump(exclude_none=True))
