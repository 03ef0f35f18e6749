"""What the trainer minimizes, and the options of each loss."""

from typing import Annotated, Literal

from pydantic import Field

from warren_schemas.base import Frozen


class PpoLoss(Frozen):
    """Clipped surrogate of Schulman et al. 2017, with ratio thresholds."""

    kind: Literal["ppo"] = "ppo"
    clip_low: Annotated[float, Field(gt=0, le=1)] = 0.8
    """Smallest ratio of new to old probability that still counts."""
    clip_high: Annotated[float, Field(ge=1)] = 1.28
    """Largest ratio that still counts."""


class ImportanceSamplingLoss(Frozen):
    """Unclipped importance-weighted policy gradient."""

    kind: Literal["importance_sampling"] = "importance_sampling"


class CrossEntropyLoss(Frozen):
    """Weighted negative log-likelihood: supervised learning."""

    kind: Literal["cross_entropy"] = "cross_entropy"


PolicyLoss = Annotated[PpoLoss | ImportanceSamplingLoss, Field(discriminator="kind")]
Loss = Annotated[PpoLoss | ImportanceSamplingLoss | CrossEntropyLoss, Field(discriminator="kind")]
