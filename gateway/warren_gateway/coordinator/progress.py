"""What a coordinator must remember to go on where another left off.

It is stored with every change. Trajectories are not part of it: those that were not consumed are
read again from the run's stream.
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from warren_schemas.events import Phase


class PendingStep(BaseModel):
    """A step whose ops are in the log and not all answered."""

    model_config = ConfigDict(extra="forbid")

    step: int
    phase: Phase
    version: int
    """The policy version that it leads to."""
    n_updates: int
    """Of the run, this step's among them."""
    first_op: int
    last_op: int
    """0 where no group of the batch carried a signal and nothing was appended."""
    metrics: dict[str, float]
    answers: list[dict[str, float]] = Field(default_factory=list[dict[str, float]])
    """Metrics that the trainer answered with, op by op."""
    batched_s: float = 0.0
    """When the batch was complete and its ops went into the log, Unix time."""
    updated_s: float = 0.0
    """When the optimizer step was answered; 0 before that."""
    policy_s: float = 0.0
    """When the new policy was published."""


class CheckpointMark(BaseModel):
    """A checkpoint whose op is in the log, and which no later one has deleted."""

    model_config = ConfigDict(extra="forbid")

    name: str
    op: int
    version: int
    step: int
    """Of reinforcement learning; 0 in SFT."""
    reward: float | None
    drops: list[str] = Field(default_factory=list[str])
    """Those that are gone once it is saved."""


class EvaluationProgress(BaseModel):
    """An evaluation under way."""

    model_config = ConfigDict(extra="forbid")

    when: Literal["before", "during", "after"]
    step: int
    version: int
    policy_url: str | None
    n_episodes: int
    n_admitted: int = 0
    n_ended: int = 0
    n_failed: int = 0
    reward_sum: float = 0.0
    started_s: float = 0.0
    environment_totals: dict[str, dict[str, float]] = Field(default_factory=dict)

    @property
    def is_done(self) -> bool:
        return self.n_ended + self.n_failed >= self.n_episodes


class Progress(BaseModel):
    model_config = ConfigDict(extra="forbid")

    stage: int = 0
    """Position in the run's plan."""
    n_admitted: int = 0
    """Groups of this stage that were admitted and not dropped."""
    n_consumed_steps: int = 0
    """Batches of this stage that were consumed."""
    n_published_steps: int = 0
    """Batches of this stage whose update, if any, is published."""
    pending: list[PendingStep] = Field(default_factory=list[PendingStep])
    version_issued: int = 0
    """Optimizer steps in the op log."""
    next_group: int = 0
    task_cursors: dict[str, int] = Field(default_factory=dict)
    """Next task index, by purpose and environment."""
    evaluation: EvaluationProgress | None = None
    last_evaluated_step: int = 0
    n_episodes: int = 0
    n_updates: int = 0
    """Optimizer steps of reinforcement learning, also before a resumption."""
    n_tokens: int = 0
    n_failed_episodes: int = 0
    """Of closed groups, each attempt by itself."""
    is_failure_told: bool = False
    n_failures_at_first: int = 0
    """Of environments, before the run's first episode completed."""
    last_failure_at_first: str = ""
    n_reports: int = 0
    """Rows of metrics that were stored."""
    n_stale_groups: int = 0
    max_staleness_seen: int = 0
    n_failed_groups_in_a_row: int = 0
    n_grants_in_vain: int = 0
    """Leases in a row that ended before a single new op was answered."""
    n_losses_in_vain: int = 0
    """The same of leases whose holder vanished."""
    op_at_grant: int = -1
    is_final_checkpoint_issued: bool = False
    checkpoints: list[CheckpointMark] = Field(default_factory=list[CheckpointMark])
    """Oldest first."""
    recording_offset: int | None = None
    """Of a replay: where to read on in the recording."""
    n_trained_steps: int = 0
    """Batches of reinforcement learning that were consumed, also before a resumption."""
    n_steps_at_start: int = 0
    """Of those, the ones before the resumption."""
    n_updates_at_start: int = 0
    n_zero_variance_steps: int = 0
    """Steps in a row, the newest among them, of which no group carried a signal."""
    zero_variance_facts: str = ""
    """What the newest such step was like."""
    start_op: int = 0
    """The op that publishes what the model starts with; 0 where the base model is that."""
    tasks_again: list[tuple[str, int, int]] = Field(default_factory=list[tuple[str, int, int]])
    """Purpose, environment and index of tasks that a resumed run had in the air."""
    resumed_stage: int | None = None
    resumed_step: int = 0
    has_reference: bool = False
    """The resumed checkpoint holds the reference of KL penalties."""
    recent_rewards: list[float] = Field(default_factory=list[float])
    """Mean reward of the newest batches, for `limits.stop_at_reward`."""
    environment_totals: dict[str, dict[str, float]] = Field(default_factory=dict)
    """Sums over the episodes that were trained on, by environment; see `environment_statistics`."""
    reward_before: float | None = None
    reward_after: float | None = None
