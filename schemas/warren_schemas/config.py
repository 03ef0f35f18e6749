"""Configs: what a user writes to start a run.

One model serves the YAML file, the command line, the SDK and HTTP. Every key has an effect; an
unknown one is an error that names the nearest valid key (see `explain`).
"""

from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import Field, JsonValue, model_validator

from warren_schemas.base import Frozen

LARGEST_INT = 2**63 - 1
"""What databases and other languages can hold as well."""

PositiveInt = Annotated[int, Field(ge=1, le=LARGEST_INT)]
NonNegativeInt = Annotated[int, Field(ge=0, le=LARGEST_INT)]
PositiveFloat = Annotated[float, Field(gt=0)]
NonNegativeFloat = Annotated[float, Field(ge=0)]
Name = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]*$")]


class FullUpdate(Frozen):
    """All weights of the model are trained."""

    kind: Literal["full"] = "full"


class LoraUpdate(Frozen):
    """Low-rank adapters are trained and the base weights stay as they are (Hu et al. 2021)."""

    kind: Literal["lora"] = "lora"
    rank: PositiveInt = 16
    """Rank of the adapters."""
    alpha: PositiveFloat = 32.0
    """Adapters are scaled by alpha / rank."""
    targets: Literal["all-linear"] | tuple[str, ...] = "all-linear"
    """Names of the modules that get an adapter."""


Update = Annotated[FullUpdate | LoraUpdate, Field(discriminator="kind")]


class ModelConfig(Frozen):
    """What is trained."""

    base: Name
    """Name of a base model that a GPU worker offers, for example `Qwen/Qwen3-0.6B`."""
    update: Update = Field(default_factory=LoraUpdate)
    """What is trained: `full` or `lora` (the default)."""


class EnvironmentConfig(Frozen):
    """Where episodes happen."""

    name: Name
    """Name of an environment that an env worker offers."""
    config: dict[str, JsonValue] = Field(default_factory=dict)
    """Passed to the environment's constructor."""
    split: str = "train"
    """Which of the environment's tasks are trained on."""
    evaluation_split: str | None = None
    """None: evaluate on fresh tasks of `split`."""
    weight: PositiveFloat = 1.0
    """Share of the groups that this environment gets, relative to the others."""
    max_turns: PositiveInt = 32
    """An episode that is longer is cut (`truncated`)."""


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


class AdvantageKind(StrEnum):
    GROUP_STD = "group_std"
    """(r - mean) / std of the group (GRPO, Shao et al. 2024)."""
    GROUP_MEAN = "group_mean"
    """r - mean of the group (Dr. GRPO, Liu et al. 2025)."""


class AlgorithmConfig(Frozen):
    """How trajectories become an update."""

    loss: PolicyLoss = Field(default_factory=PpoLoss)
    """`ppo` (the default) or `importance_sampling`."""
    advantage: AdvantageKind = AdvantageKind.GROUP_STD
    """How rewards of a group become advantages."""
    group_size: Annotated[int, Field(ge=2)] = 16
    """Episodes of one task that are compared with each other."""
    groups_per_step: PositiveInt = 4
    """Groups in one optimizer step."""
    max_staleness: NonNegativeInt = 2
    """Most optimizer steps between sampling an episode and training on it; 0 is on-policy."""
    normalize: Literal["tokens", "episodes", "none"] = "tokens"
    """What the summed loss of a step is divided by."""
    on_failed_member: Literal["drop_group", "train_on_rest"] = "train_on_rest"
    """What becomes of a group in which an episode failed for good."""


class OptimizerConfig(Frozen):
    """AdamW (Loshchilov and Hutter 2019)."""

    learning_rate: NonNegativeFloat = 1e-4
    """Step size, after the rise."""
    warmup_steps: NonNegativeInt = 0
    """Steps over which the learning rate rises from 0."""
    beta1: Annotated[float, Field(ge=0, lt=1)] = 0.9
    """Decay of the mean of the gradient."""
    beta2: Annotated[float, Field(ge=0, lt=1)] = 0.95
    """Decay of the mean of its square."""
    eps: PositiveFloat = 1e-8
    """Added to the root of the mean square."""
    weight_decay: NonNegativeFloat = 0.0
    """Decoupled weight decay."""
    clip_norm: NonNegativeFloat = 1.0
    """Largest norm of the gradient; 0 is off."""


class WarmupConfig(Frozen):
    """Supervised steps on the environment's own demonstrations, before reinforcement learning."""

    steps: PositiveInt = 100
    """Supervised optimizer steps."""
    episodes_per_step: PositiveInt = 32
    """Demonstrations in one step."""
    learning_rate: PositiveFloat = 1e-3
    """Highest step size; it rises over 20 steps and then falls linearly to a tenth."""


class EvaluationConfig(Frozen):
    """Fresh episodes with one fixed policy version; every evaluation sees the same tasks."""

    episodes: PositiveInt = 256
    """Episodes of one evaluation."""
    temperature: NonNegativeFloat = 0.0
    """0 takes the most probable token each time."""
    before: bool = True
    """Evaluate before reinforcement learning (and after the warm-up)."""
    after: bool = True
    """Evaluate at the end."""
    every_steps: PositiveInt | None = None
    """Evaluate in between, while training goes on; null is off."""


class CheckpointConfig(Frozen):
    """Checkpoints hold all that training needs to go on; they bound what is done again after a crash."""

    every_steps: PositiveInt = 100
    """Optimizer steps from one checkpoint to the next."""
    keep_last: Annotated[int, Field(ge=2)] = 2
    """Older checkpoints are deleted. At least 2: the one before the newest is the way back when a
    trainer dies while it saves."""


class LimitsConfig(Frozen):
    """When to stop, and how long to wait."""

    steps: Annotated[int, Field(ge=1, le=1_000_000_000)] = 100
    """Optimizer steps of reinforcement learning."""
    stop_at_reward: float | None = None
    """End early once the mean reward of the last 16 batches reaches this."""
    episode_s: PositiveFloat = 600.0
    """An episode that has not ended by then is started again."""
    episode_attempts: PositiveInt = 3
    """How often an episode is tried when it fails or is lost."""
    failed_groups: PositiveInt = 16
    """The run fails after this many groups in a row without one usable episode."""


class TrainConfig(Frozen):
    """A reinforcement-learning run."""

    name: Annotated[str, Field(min_length=1, max_length=128)] = "run"
    """For people: shown in lists."""
    model: ModelConfig
    environments: Annotated[tuple[EnvironmentConfig, ...], Field(min_length=1)]
    sampling: Sampling = Field(default_factory=Sampling)
    algorithm: AlgorithmConfig = Field(default_factory=AlgorithmConfig)
    optimizer: OptimizerConfig = Field(default_factory=OptimizerConfig)
    warmup: WarmupConfig | None = None
    evaluation: EvaluationConfig | None = None
    checkpoint: CheckpointConfig = Field(default_factory=CheckpointConfig)
    limits: LimitsConfig = Field(default_factory=LimitsConfig)
    seed: NonNegativeInt = 0
    """Seeds the tasks, the adapters and the data order."""

    @model_validator(mode="after")
    def _trainable_sampling(self) -> Self:
        if self.sampling.temperature == 0:
            raise ValueError(
                "sampling.temperature: 0 makes all episodes of a group alike, so nothing can be"
                " learned; set it above 0 (evaluation.temperature may be 0)"
            )
        return self
