"""What the trainer minimizes, and the options of each loss."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from warren_schemas.config.numbers import NonNegativeFloat, PositiveFloat
from warren_schemas.text.written import Config

__all__ = [
    "CispoLoss",
    "CrossEntropyLoss",
    "DroLoss",
    "GspoLoss",
    "ImportanceSamplingLoss",
    "KlPenalty",
    "Loss",
    "PolicyLoss",
    "PpoLoss",
    "SapoLoss",
]


class PpoLoss(Config):
    """Clipped surrogate loss (Schulman et al. 2017), with thresholds of the ratio."""

    kind: Literal["ppo"] = "ppo"
    clip_low: Annotated[float, Field(gt=0, le=1)] = 0.8
    """Smallest ratio of new to old probability that still has a gradient."""
    clip_high: Annotated[float, Field(ge=1)] = 1.28
    """Largest ratio that still has a gradient."""


class GspoLoss(Config):
    """Clipped surrogate loss by sequence (Zheng et al. 2025): one ratio for all tokens of an episode.

    The ratio is a geometric mean over the tokens, so the thresholds lie close to 1, and closer for
    longer answers: the paper has 0.9997 and 1.0004 for thousands of tokens.
    """

    kind: Literal["gspo"] = "gspo"
    clip_low: Annotated[float, Field(gt=0, le=1)] = 0.97
    """Smallest ratio of a sequence that still has a gradient."""
    clip_high: Annotated[float, Field(ge=1)] = 1.04
    """Largest ratio that still has a gradient."""


class CispoLoss(Config):
    """Policy gradient weighted by the clipped ratio (MiniMax-M1, 2025): every token keeps its gradient."""

    kind: Literal["cispo"] = "cispo"
    clip_low: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Smallest weight of a token."""
    clip_high: Annotated[float, Field(ge=1)] = 4.0
    """Largest weight of a token."""


class SapoLoss(Config):
    """Surrogate with a soft gate in place of a clip (Gao et al. 2025): a token's gradient is weighted less
    the further its ratio is from 1.

    With a temperature of 1 the weight is 1 at a ratio of 1, 0.98 at 1.28 and 0.1 at 4.6.
    """

    kind: Literal["sapo"] = "sapo"
    tau_pos: PositiveFloat = 1.0
    """Temperature of the gate for tokens with a positive advantage; a higher one fades sooner."""
    tau_neg: PositiveFloat = 1.05
    """Likewise with a negative one. The paper advises a higher one than `tau_pos`, because lowering the
    probability of a token raises those of many others."""


class DroLoss(Config):
    """Policy gradient with a penalty on the squared log-ratio (Richemond et al. 2024)."""

    kind: Literal["dro"] = "dro"
    beta: PositiveFloat = 0.05
    """Weight of the penalty, which keeps the policy near the one that sampled."""


class ImportanceSamplingLoss(Config):
    """Unclipped importance-weighted policy gradient."""

    kind: Literal["importance_sampling"] = "importance_sampling"


class CrossEntropyLoss(Config):
    """Weighted negative log-likelihood: supervised learning."""

    kind: Literal["cross_entropy"] = "cross_entropy"


_PolicyLosses = PpoLoss | GspoLoss | CispoLoss | SapoLoss | DroLoss | ImportanceSamplingLoss

PolicyLoss = Annotated[_PolicyLosses, Field(discriminator="kind")]
Loss = Annotated[_PolicyLosses | CrossEntropyLoss, Field(discriminator="kind")]


class KlPenalty(Config):
    """Keeps the policy near a reference, by an estimate of KL(policy || reference)."""

    coefficient: NonNegativeFloat = 0.01
    """Weight of the penalty, per nat."""
    estimator: Literal["k1", "k2", "k3"] = "k3"
    """With d = log p - log p_ref of a sampled token (Schulman 2020): k1 is d, k2 is d²/2, k3 is
    exp(-d) - 1 + d. Both p are of all tokens, also where `top_p`, `top_k` or `min_p` leave few of them."""
    place: Literal["loss", "reward"] = "loss"
    """`loss` adds the estimate to the loss; `reward` subtracts it from the rewards of a token and of
    those after it."""

    @model_validator(mode="after")
    def _has_a_gradient(self) -> Self:
        if self.place == "loss" and self.estimator == "k1":
            raise ValueError(
                "k1 in the loss has an expected gradient of 0, so it has no effect;"
                " use k2 or k3, or place: reward"
            )
        return self
