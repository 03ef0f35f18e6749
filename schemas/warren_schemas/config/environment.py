"""Where episodes happen, and what counts there."""

from collections import Counter
from typing import Annotated, Literal, Self

from pydantic import Field, JsonValue, model_validator

from warren_schemas.base import Listed
from warren_schemas.config.curriculum import Curriculum
from warren_schemas.config.groups import GroupSize
from warren_schemas.config.numbers import (
    DatasetReference,
    EnvironmentName,
    Name,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
)
from warren_schemas.config.rewards.groups import (
    GroupFunctionReward,
    GroupJudgeReward,
    GroupReward,
    GroupServiceReward,
)
from warren_schemas.config.rewards.parts import AnyReward, faults
from warren_schemas.config.rewards.rubric import Reward
from warren_schemas.config.rewards.rules import RewardReduction, RewardRules
from warren_schemas.config.sampling import SamplingChanges
from warren_schemas.config.tools import ToolFormat
from warren_schemas.ids import TaskId
from warren_schemas.text.written import Config

_OF_GROUPS = (GroupFunctionReward, GroupServiceReward, GroupJudgeReward)
MAX_TASK_IDS = 256
"""They travel with every episode."""
MAX_PARTS = 32
SecretName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}$")]


class SplitConfig(Config):
    """Which tasks of a split are used, and in which order."""

    shuffle: bool = True
    """Shuffle the tasks anew in each epoch; false keeps the order of the data."""
    num_samples: PositiveInt | None = None
    """Use only this many tasks, chosen once per run (with `shuffle: false`, the first ones)."""
    task_ids: Annotated[Listed[TaskId], Field(max_length=MAX_TASK_IDS)] = ()
    """Use only the environment's own tasks with these ids (with `shuffle: false`, in this order); empty uses all."""

    @model_validator(mode="after")
    def _names_each_task_once(self) -> Self:
        twice = [each for each, n in Counter(self.task_ids).items() if n > 1]
        if twice:
            raise ValueError(f"task_ids names {twice[0]!r} more than once; name each task once")
        return self


class EnvironmentConfig(Config):
    """Where episodes happen."""

    name: EnvironmentName
    """Name of an environment that an env worker offers."""
    workers: Literal["shared", "own"] = "shared"
    """Which env workers host it: `shared`, those of the deployment; `own`, only those that the run's owner
    connected with `warren env-worker --gateway`."""
    config: dict[str, JsonValue] = Field(default_factory=dict)
    """Passed to the environment's constructor."""
    dataset: DatasetReference | None = None
    """Data set whose rows are its tasks: NAME, OWNER/NAME or either with @DIGEST; null: the environment's own tasks.
    Its splits are those of the data set."""
    split: Name = "train"
    """Which of the environment's tasks are trained on."""
    evaluation_split: Name | None = None
    """Split for evaluation; null uses fresh tasks of `split`."""
    splits: dict[Name, SplitConfig] = Field(default_factory=dict)
    """Settings by name of the split, such as `splits: {train: {shuffle: false}}`; a split without settings is used
    completely and shuffled."""
    curriculum: Curriculum | None = None
    """Which levels or tasks are trained on more often; null: all of them in turn."""
    weight: PositiveFloat = 1.0
    """Relative share of the groups that this environment gets."""
    max_turns: PositiveInt = 32
    """Maximum number of turns; longer episodes are truncated."""
    recover: Literal["replay", "restart"] = "replay"
    """What happens to an episode whose env worker is lost: `replay` rebuilds it from its actions and
    continues, `restart` starts it again from its first turn, up to `episode_attempts` times."""
    sampling: SamplingChanges = Field(default_factory=SamplingChanges)
    """Overrides of the run's `sampling`; null keeps the run's value."""
    tool_format: ToolFormat | None = None
    """How the policy writes tool calls; null: as the environment declares."""
    group_size: GroupSize | None = None
    """Episodes of one task; null: `algorithm.group_size`."""
    max_failed_members: NonNegativeInt | None = None
    """Maximum number of failed episodes in a group: with more it is dropped; null: see `algorithm.groups`."""
    rewards: Annotated[Listed[AnyReward], Field(max_length=MAX_PARTS)] = ()
    """Parts of the reward, each with its weight; without any, what the environment gives is the reward. What parts
    other than `own` give is added to the reward of the last turn."""
    reward_reduction: RewardReduction = RewardReduction.SUM
    """How the rewards of the turns are reduced to the reward of the episode."""
    nonterminal_reward: float | None = None
    """Extra reward for a truncated episode (with credit by turn, or a critic, for its last turn); null gives
    none."""
    min_reward: float | None = None
    """Lower bound of an episode's reward; null is off."""
    max_reward: float | None = None
    """Upper bound of an episode's reward; null is off."""
    episode_s: PositiveFloat | None = None
    """Time limit of an episode, which is then started again; null: `limits.episode_s`."""
    episode_attempts: PositiveInt | None = None
    """Maximum number of attempts at an episode; null: `limits.episode_attempts`."""
    max_in_flight: PositiveInt | None = None
    """Maximum number of live episodes (one group is always allowed); null is no limit."""
    secrets: Listed[SecretName] = ()
    """Names of secrets for this environment, in addition to those of the run."""

    @property
    def parts(self) -> tuple[Reward, ...]:
        """Those that look at one episode."""
        return tuple(part for part in self.rewards if not isinstance(part, _OF_GROUPS))

    @property
    def group_parts(self) -> tuple[GroupReward, ...]:
        """Those that compare the episodes of a group."""
        return tuple(part for part in self.rewards if isinstance(part, _OF_GROUPS))

    @property
    def reward_rules(self) -> RewardRules:
        return RewardRules(
            reduction=self.reward_reduction,
            nonterminal=self.nonterminal_reward,
            minimum=self.min_reward,
            maximum=self.max_reward,
        )

    @model_validator(mode="after")
    def _has_these_splits(self) -> Self:
        used = {self.split, self.evaluation_split}
        for name in self.splits:
            if name not in used:
                raise ValueError(
                    f"splits.{name} are settings of a split that is not used: split is {self.split}, and"
                    f" evaluation_split {self.evaluation_split or 'null'}; correct its name or leave it out"
                )
        return self

    @model_validator(mode="after")
    def _has_tasks_of_its_own(self) -> Self:
        chosen = [name for name, split in self.splits.items() if split.task_ids]
        if self.dataset is not None and chosen:
            raise ValueError(
                f"splits.{chosen[0]}.task_ids chooses among an environment's own tasks, and with dataset the"
                " tasks are rows; leave one of them out, or upload the rows that you want"
            )
        return self

    @model_validator(mode="after")
    def _has_as_many_tasks(self) -> Self:
        of_split = self.splits.get(self.split, SplitConfig())
        limits = {"num_samples": of_split.num_samples, "task_ids": len(of_split.task_ids) or None}
        n_used = self.curriculum.n if self.curriculum and self.curriculum.over == "tasks" else 0
        for key, most in limits.items():
            if most is not None and n_used > most:
                raise ValueError(
                    f"curriculum.n is {n_used}, and splits.{self.split}.{key} leaves {most} tasks; lower the one"
                    " or raise the other"
                )
        return self

    @model_validator(mode="after")
    def _is_a_rubric(self) -> Self:
        if wrong := faults(self.rewards):
            raise ValueError("; ".join(f"rewards.{each}" for each in wrong))
        return self

    @model_validator(mode="after")
    def _ordered_clamps(self) -> Self:
        low, high = self.min_reward, self.max_reward
        if low is not None and high is not None and low > high:
            raise ValueError(f"min_reward {low:g} is above max_reward {high:g}")
        return self
