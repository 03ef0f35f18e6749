"""The state of learning: the op log, the policy, steps, batches and checkpoints. Written by `learning` alone.

Fields are stored with every change, but for those excluded: they stand in the model's row, or only
serve a metric.
"""

from pydantic import BaseModel, ConfigDict, Field, InstanceOf, JsonValue

from warren_schemas.events import Phase
from warren_schemas.training import OpResult


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
    first_evaluation_op: int = 0
    """The first of those that measure the loss over rows that are held out, which are its last ones but for a checkpoint;
    0 where none does."""
    evaluation_answers: list[dict[str, float]] = Field(default_factory=list[dict[str, float]])
    """Metrics that the trainer answered these with."""
    batched_s: float = 0.0
    """When the batch was complete and its ops went into the log, Unix time."""
    updated_s: float = 0.0
    """When the optimizer step was answered; 0 before that."""
    policy_s: float = 0.0
    """When the new policy was published."""
    evaluated_s: float = 0.0
    """When the loss over rows that are held out was known."""
    training_s: float = 0.0
    """What the trainer took for it, by its own clock."""

    def measures(self, op: int) -> bool:
        """Whether the op, which is one of the step's, is one of its evaluation or comes behind it."""
        return 0 < self.first_evaluation_op <= op


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
    is_clients: bool = False
    """Of a model that its client drives: it counts no steps."""
    label: str | None = None
    """The name that its client gave it; None: nobody asked for it."""
    expires_s: float | None = None
    metadata: dict[str, JsonValue] | None = None
    """Its client's own."""
    url: str | None = None
    """Once it is saved."""


class OpLogState(BaseModel):
    """Numbers are those of ops; 0 is before the first."""

    model_config = ConfigDict(extra="forbid")

    last: int = Field(default=0, exclude=True)
    done: int = Field(default=0, exclude=True)
    """Every op up to this one was answered in this lease, or lies under the checkpoint."""
    answered: int = Field(default=0, exclude=True)
    """The newest op that was answered in any lease."""
    ids: dict[int, str] = Field(default_factory=dict[int, str], exclude=True)
    """Of the ops after the checkpoint: the id of each one's envelope, by number."""
    known_done: set[int] = Field(default_factory=set[int], exclude=True)
    """Those of them that a trainer has answered as done, in this lease or an earlier one."""
    early_answers: dict[int, InstanceOf[OpResult]] = Field(
        default_factory=dict[int, OpResult], exclude=True
    )
    """Answers that came before those of smaller numbers."""
    start: int = 0
    """The op that publishes what the model starts with; 0 where the base model is that."""
    counted: int = 0
    """The newest op whose use is counted; those that are applied again after a failover are not."""


class PolicyState(BaseModel):
    """What is sampled from, and what the trainer told of the model behind it."""

    model_config = ConfigDict(extra="forbid")

    version: int = Field(default=0, exclude=True)
    url: str | None = Field(default=None, exclude=True)
    published: list[tuple[int, int]] = Field(default_factory=list[tuple[int, int]], exclude=True)
    """Step and version of the newest published policies, oldest first."""
    version_issued: int = 0
    """Optimizer steps in the op log."""
    vocabulary_size: int = 0
    """Of the model, as its trainer told it; 0 before."""
    tokenizer: str = ""
    """Digest of the vocabulary of the model that is trained, as its trainer told it; empty before."""


class StepsState(BaseModel):
    model_config = ConfigDict(extra="forbid")

    n_consumed: int = 0
    """Batches of this stage that were consumed."""
    n_published: int = 0
    """Batches of this stage whose update, if any, is published."""
    n_empty: int = 0
    """Batches of SFT that had no token to learn."""
    pending: list[PendingStep] = Field(default_factory=list[PendingStep])
    n_updates: int = 0
    """Optimizer steps of reinforcement learning, also before a resumption."""
    n_trained: int = 0
    """Batches of reinforcement learning that were consumed, also before a resumption."""
    n_at_start: int = 0
    """Of those, the ones before the resumption."""


class BatchesState(BaseModel):
    """What the batches so far were like."""

    model_config = ConfigDict(extra="forbid")

    has_learned: bool = False
    """Whether rewards told episodes of one of this run's own steps apart."""
    max_staleness: int = 0
    recent_rewards: list[float] = Field(default_factory=list[float])
    """Mean reward of the newest batches, for `limits.stop_at_reward`."""
    environment_totals: dict[str, dict[str, float]] = Field(default_factory=dict)
    """Sums over the episodes that were trained on, by environment; see `environment_metrics`."""
    n_zero_variance: int = 0
    """Steps in a row, the newest among them, of which no group carried a signal."""
    zero_variance_facts: str = ""
    """What the newest such step was like."""
    is_mask_bound_told: bool = False
    """Whether a warning said that sampling masks were as large as they may be."""
    rate_mark: tuple[float, int, int] = Field(default=(0.0, 0, 0), exclude=True)
    """Time, episodes and tokens at the last step: for rates."""


class CheckpointsState(BaseModel):
    model_config = ConfigDict(extra="forbid")

    newest_op: int = Field(default=0, exclude=True)
    newest_url: str | None = Field(default=None, exclude=True)
    marks: list[CheckpointMark] = Field(default_factory=list[CheckpointMark])
    """Oldest first."""
    is_final_issued: bool = False


class ResumedState(BaseModel):
    """The checkpoint that the run began with, if any."""

    model_config = ConfigDict(extra="forbid")

    stage: int | None = None
    step: int = 0
    has_reference: bool = False
    """It holds the reference of KL penalties."""


class LearningState(BaseModel):
    model_config = ConfigDict(extra="forbid")

    ops: OpLogState = Field(default_factory=OpLogState)
    policy: PolicyState = Field(default_factory=PolicyState)
    steps: StepsState = Field(default_factory=StepsState)
    batches: BatchesState = Field(default_factory=BatchesState)
    checkpoints: CheckpointsState = Field(default_factory=CheckpointsState)
    resumed: ResumedState = Field(default_factory=ResumedState)
