"""The keys of OpenReward's training example on Tinker, with its types and defaults."""

from typing import Annotated, Literal

from pydantic import Field

from warren_schemas.base import Frozen
from warren_schemas.config.numbers import Name, NonNegativeInt, PositiveFloat, PositiveInt

Secrets = dict[str, str | None]
"""None takes the value from an environment variable; an empty text takes the secret away."""


class TheirSplit(Frozen):
    shuffle: bool = True
    num_samples: PositiveInt | None = None


class TheirEnvironment(Frozen):
    splits: Annotated[dict[Name, TheirSplit], Field(min_length=1)]
    num_rollouts: Annotated[int, Field(ge=2)]
    max_failing_rollouts: NonNegativeInt = 0
    temperature: Annotated[float, Field(ge=0, le=2)] = 1.0
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    top_k: NonNegativeInt | None = None
    reward_reduction: Literal["sum", "mean", "max", "min"] = "sum"
    nonterminal_reward: float | None = None
    min_reward: float | None = None
    max_reward: float | None = None
    secrets: Secrets | None = None


class TheirConfig(Frozen):
    wandb_project_name: str = ""
    wandb_run_name: str = ""
    openreward_run_name: Annotated[str, Field(max_length=128)] = ""
    log_path: str | None = None
    environments: Annotated[dict[Name, TheirEnvironment], Field(min_length=1)]
    secrets: Secrets | None = None
    model_name: Name
    tokenizer_name: str | None = None
    lora_rank: PositiveInt = 32
    resume_from: str | None = None
    max_response_tokens: PositiveInt = 4096
    max_total_tokens: PositiveInt = 32768
    max_rollout_retries: NonNegativeInt = 3
    loss_fn: Literal["importance_sampling", "ppo", "cispo", "dro"] = "ppo"
    loss_fn_config: dict[str, float] = Field(default_factory=dict)
    advantage_calculation: Literal["direct", "centered", "centered_normalized"] = (
        "centered_normalized"
    )
    batch_size: PositiveInt
    learning_rate: PositiveFloat = 4e-5
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    num_epochs: PositiveInt | None = None
    save_every: PositiveInt = 10
    max_active_tasks: PositiveInt = 32
    max_rollout_concurrency: PositiveInt | None = None
    rollout_timeout: PositiveFloat = 300.0
    system_prompt_template: str | None = None
    thinking: bool = False
    seed: NonNegativeInt = 42
