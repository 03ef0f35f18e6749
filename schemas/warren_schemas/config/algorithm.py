"""How trajectories become an update."""

from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from warren_schemas.config.critic import Critic
from warren_schemas.config.groups import FailedMembers, GroupSize, Retry
from warren_schemas.config.losses import KlPenalty, PolicyLoss, PpoLoss
from warren_schemas.config.numbers import (
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
)
from warren_schemas.text.written import Config


class AdvantageKind(StrEnum):
    GROUP_STD = "group_std"
    """(r - mean) / std of the group (GRPO, Shao et al. 2024)."""
    GROUP_MEAN = "group_mean"
    """r - mean of the group (Dr. GRPO, Liu et al. 2025)."""
    LEAVE_ONE_OUT = "leave_one_out"
    """r - mean of the others in the group (RLOO, Ahmadian et al. 2024)."""
    DIRECT = "direct"
    """r as it is (REINFORCE, Williams 1992)."""
    CENTERED = "centered"
    """r - mean of the group, under the name of OpenReward's example; the same as `group_mean`."""
    CENTERED_NORMALIZED = "centered_normalized"
    """(r - mean) / std of the group, as in OpenReward's example: no epsilon is added to the std."""
    BATCH_MEAN = "batch_mean"
    """r - mean of the batch."""
    BATCH_STD = "batch_std"
    """(r - mean) / std of the batch."""


class EpisodeCredit(Config):
    """All tokens of an episode share its reward."""

    kind: Literal["episode"] = "episode"


class TurnCredit(Config):
    """Each turn gets the rewards that follow it, and is compared with the same turn of other episodes."""

    kind: Literal["turn"] = "turn"
    discount: Annotated[float, Field(ge=0, le=1)] = 1.0
    """Discount factor per turn."""


Credit = Annotated[EpisodeCredit | TurnCredit, Field(discriminator="kind")]

_OF_RATIOS = ("clip_low", "clip_high", "tau_pos", "tau_neg")


class AlgorithmConfig(Config):
    """How trajectories become an update."""

    loss: PolicyLoss = Field(default_factory=PpoLoss)
    """What the trainer minimizes; `ppo` is the default."""
    advantage: AdvantageKind = AdvantageKind.GROUP_STD
    """How rewards become advantages. Zero-variance groups carry no gradient and are dropped."""
    credit: Credit = Field(default_factory=EpisodeCredit)
    """What a reward is credited to: the whole `episode` (the default), or the `turn`s before it."""
    critic: Critic | None = None
    """A value head that is trained with the policy and estimates the advantage of each token from the
    rewards of the turns, in place of `advantage` and `credit`; null is off."""
    kl: KlPenalty | None = None
    """KL penalty towards the policy that the first step starts from; null is off."""
    entropy_coefficient: NonNegativeFloat = 0.0
    """Weight of the entropy bonus, in advantage per nat; 0 is off. The entropy is that of the tokens that
    `top_p`, `top_k` and `min_p` left: what was cut is not raised, `kl` brings it back."""
    tis_cap: PositiveFloat | None = None
    """Upper bound of a token's importance weight, trainer over sampler (truncated importance sampling).
    The loss then sees ratios of 1, so it clips nothing; `dro` still penalizes the distance from the
    sampling policy. Null is off."""
    group_size: GroupSize = 16
    """Episodes per task, which are compared with each other; at most 1024."""
    groups_per_step: PositiveInt = 4
    """Groups in one optimizer step."""
    max_staleness: NonNegativeInt = 2
    """Maximum number of optimizer steps between sampling an episode and training on it; 0 is on-policy."""
    normalize: Literal["tokens", "episodes", "none"] = "tokens"
    """What the loss of a step, summed over tokens, is divided by."""
    groups: FailedMembers = Field(default_factory=Retry)
    """What happens to a group in which episodes fail; `retry` is the default."""

    @model_validator(mode="after")
    def _has_one_judge(self) -> Self:
        is_default = self.advantage is AdvantageKind.GROUP_STD and self.credit == EpisodeCredit()
        if self.critic is not None and not is_default:
            raise ValueError(
                "with a critic, advantage and credit have no effect: leave them out, or set"
                " critic to null"
            )
        return self

    @model_validator(mode="after")
    def _clips_something(self) -> Self:
        """Against the trainer's own logprobs every ratio is 1, where no threshold or gate acts."""
        if self.tis_cap is None:
            return self
        default = type(self.loss)()
        for key in type(self.loss).model_fields:
            if key in _OF_RATIOS and getattr(self.loss, key) != getattr(default, key):
                raise ValueError(
                    f"loss.{key} acts on ratios other than 1, and with tis_cap the loss sees none;"
                    " leave one of the two out"
                )
        return self
