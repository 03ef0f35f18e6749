"""Where episodes happen, and what counts there."""

from typing import Annotated, Literal, Self

from pydantic import Field, JsonValue, model_validator

from warren_schemas.base import Listed
from warren_schemas.config.groups import GroupSize
from warren_schemas.config.numbers import Name, NonNegativeInt, PositiveFloat, PositiveInt
from warren_schemas.config.rewards import RewardReduction, RewardRules
from warren_schemas.config.sampling import SamplingChanges
from warren_schemas.config.tools import ToolFormat
from warren_schemas.config.written import Config

SecretName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}$")]


class SplitConfig(Config):
    """Which tasks of a split are used, and in which order."""

    shuffle: bool = True
    """Pass through the tasks in a fresh order each epoch; false keeps the order of the data."""
    num_samples: PositiveInt | None = None
    """Use only so many tasks, chosen once for the run (with `shuffle: false`, the first ones)."""


class EnvironmentConfig(Config):
    """Where episodes happen."""

    name: Name
    """Name of an environment that an env worker offers."""
    workers: Literal["shared", "own"] = "shared"
    """Who plays it: `shared`, the env workers of the deployment; `own`, only those that were connected
    with `warren env-worker --gateway` by the run's owner."""
    config: dict[str, JsonValue] = Field(default_factory=dict)
    """Passed to the environment's constructor."""
    split: str = "train"
    """Which of the environment's tasks are trained on."""
    evaluation_split: str | None = None
    """None: evaluate on fresh tasks of `split`."""
    splits: dict[str, SplitConfig] = Field(default_factory=dict)
    """By name of the split; one that is not named here is used whole and shuffled."""
    weight: PositiveFloat = 1.0
    """Share of the groups that this environment gets, relative to the others."""
    max_turns: PositiveInt = 32
    """An episode that is longer is cut (`truncated`)."""
    recover: Literal["replay", "restart"] = "replay"
    """What becomes of an episode whose env worker is lost: `replay` rebuilds it from its actions and
    goes on, `restart` starts it again from its first turn, as often as `episode_attempts` allows."""
    sampling: SamplingChanges = Field(default_factory=SamplingChanges)
    """What differs from the run's `sampling`; null leaves it as it is there."""
    tool_format: ToolFormat | None = None
    """How the policy writes calls of the environment's tools; null: as the environment says."""
    group_size: GroupSize | None = None
    """Episodes of one task; null: `algorithm.group_size`."""
    max_failed_members: NonNegativeInt | None = None
    """A group with more failed episodes is dropped; null: see `algorithm.groups`."""
    reward_reduction: RewardReduction = RewardReduction.SUM
    """What the rewards of an episode's turns become."""
    nonterminal_reward: float | None = None
    """One more reward for an episode that was cut before its end; null gives none."""
    min_reward: float | None = None
    """Lower rewards of an episode are raised to this."""
    max_reward: float | None = None
    """Higher rewards of an episode are lowered to this."""
    episode_s: PositiveFloat | None = None
    """An episode that has not ended by then is started again; null: `limits.episode_s`."""
    episode_attempts: PositiveInt | None = None
    """How often an episode is tried; null: `limits.episode_attempts`."""
    max_in_flight: PositiveInt | None = None
    """Most episodes at once (one group is always allowed); null is no limit."""
    secrets: Listed[SecretName] = ()
    """Names of secrets that the environment gets besides those of the run."""

    @property
    def reward_rules(self) -> RewardRules:
        return RewardRules(
            reduction=self.reward_reduction,
            nonterminal=self.nonterminal_reward,
            minimum=self.min_reward,
            maximum=self.max_reward,
        )

    @model_validator(mode="after")
    def _ordered_clamps(self) -> Self:
        low, high = self.min_reward, self.max_reward
        if low is not None and high is not None and low > high:
            raise ValueError(f"min_reward {low:g} is above max_reward {high:g}")
        return self
