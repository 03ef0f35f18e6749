"""Bodies of the HTTP API. `__all__` is what users of the SDK hold; `warren` exports it as it is."""

from typing import Annotated, Literal

from pydantic import Field, JsonValue

from warren_schemas.base import Frozen
from warren_schemas.config import NonNegativeInt, TrainConfig
from warren_schemas.episode import EpisodeEnded
from warren_schemas.events import Phase, RunOutcome, RunState
from warren_schemas.ids import RunId, WorkerId

__all__ = [
    "CheckpointList",
    "CheckpointMetricsList",
    "CheckpointMetricsView",
    "CheckpointView",
    "DeadLetterDetails",
    "DeadLetterView",
    "EvaluationView",
    "Health",
    "MetricsView",
    "QueueView",
    "RunResult",
    "RunView",
    "StateView",
    "TrajectoryView",
    "WorkerView",
]


class Problem(Frozen):
    """Every error answer: what was wrong, where, and what to do."""

    code: str
    """Stable word for programs, for example `invalid_config`."""
    message: str
    details: tuple[str, ...] = ()
    """One line for each thing that was wrong, with the place of it."""
    hint: str | None = None
    """The next thing to do."""


class SubmitRun(Frozen):
    config: TrainConfig
    idempotency_key: Annotated[str, Field(min_length=8, max_length=128)] | None = None
    """The same key gives the same run, however often it is submitted."""


class RunResult(Frozen):
    """What a run has to show; rewards are means over evaluation episodes."""

    outcome: RunOutcome | None = None
    """What came of it; null where it failed or was cancelled."""
    remark: str | None = None
    """Why it ended before its last step, or learned nothing."""
    reward_before: float | None = None
    reward_after: float | None = None
    episodes: NonNegativeInt = 0
    updates: NonNegativeInt = 0
    """Optimizer steps of reinforcement learning."""
    tokens: NonNegativeInt = 0
    """Tokens sampled."""
    wall_s: float = 0.0
    max_staleness_seen: NonNegativeInt = 0
    failed_episodes: NonNegativeInt = 0
    """Each attempt by itself."""
    failures: dict[str, NonNegativeInt] = Field(default_factory=dict)
    """The same by the kind of the failure."""
    dropped_groups: dict[str, NonNegativeInt] = Field(default_factory=dict)
    """Complete groups that were not trained on, by reason: `stale`, `failed`, `no_signal`."""
    version: NonNegativeInt = 0
    """Policy version: the model's optimizer steps, supervised ones among them."""
    policy_url: str | None = None
    """Where the last published weights lie."""
    log_dir: str | None = None
    """Folder of the TensorBoard files, on the gateway's disk."""


class StateView(Frozen):
    """A state that the run entered."""

    state: RunState
    at_s: float
    """Unix time."""
    reason: str | None = None


class CancelRun(Frozen):
    save: bool = False
    """Save a checkpoint first."""


class QueuePlace(Frozen):
    """Where a run's job stands among those that wait for a trainer."""

    number: Annotated[int, Field(ge=1)]
    """1 is next. Those that could not start now, whoever made room, come after all others."""
    n_ahead_own: NonNegativeInt
    """Of those before it, the same owner's."""
    n_ahead_others: NonNegativeInt
    reason: str
    """Why it waits, a sentence without its full stop."""


class RunView(Frozen):
    id: RunId
    name: str
    owner: str = ""
    """The user whose run it is."""
    state: RunState
    phase: Phase | None = None
    waiting_for: str | None = None
    """Why nothing moves, when nothing moves."""
    queue: QueuePlace | None = None
    """Of a run that waits for a trainer, as the scheduler decided last."""
    step: NonNegativeInt = 0
    """Steps of reinforcement learning, those before a resumption among them."""
    n_steps: NonNegativeInt
    """`limits.steps`."""
    sft_step: NonNegativeInt = 0
    """Supervised steps of SFT."""
    reward: float | None = None
    """Mean reward of the newest training batch."""
    error: str | None = None
    created_s: float
    started_s: float | None = None
    ended_s: float | None = None
    retry_of: RunId | None = None
    """The run that failed or was cancelled, for which this one goes on."""
    history: tuple[StateView, ...] = ()
    """The states that it has been in, oldest first; empty in lists."""
    result: RunResult | None = None
    config: TrainConfig | None
    """None where the gateway that answers is too old to read it."""


class CheckpointView(Frozen):
    """A checkpoint that is kept."""

    name: str
    """What `resume_from.checkpoint` takes: `step-` and its step, `sft-` and the supervised step."""
    version: NonNegativeInt
    """Policy version: the model's optimizer steps, supervised ones among them."""
    step: NonNegativeInt
    """The run's step; 0 in SFT."""
    reward: float | None = None
    """Mean reward of up to 16 steps before it."""
    size_bytes: NonNegativeInt
    url: str
    created_s: float


class PolicyView(Frozen):
    """A policy that samplers can load; in force from its step on until the next one's."""

    step: NonNegativeInt
    """The step that made it; 0 what the run began with, or SFT made."""
    version: NonNegativeInt
    """Policy version: the model's optimizer steps, supervised ones among them."""
    url: str


class CheckpointList(Frozen):
    checkpoints: tuple[CheckpointView, ...]
    """Oldest first."""
    step: NonNegativeInt = 0
    """The run's."""
    policies: tuple[PolicyView, ...] = ()
    """The newest that are kept, oldest first. A step without an update has the one before."""

    def policy_after(self, step: int) -> PolicyView | None:
        """The policy in force after this step; None where it is not kept, or the run is not there yet."""
        older = [policy for policy in self.policies if policy.step <= step <= self.step]
        return older[-1] if older else None


class EvaluationView(Frozen):
    """What an evaluation of a run came to."""

    step: NonNegativeInt
    """The step of training after which it was due."""
    version: NonNegativeInt
    """The policy version that was evaluated."""
    n_episodes: NonNegativeInt
    reward_mean: float


class CheckpointMetricsView(Frozen):
    """What the run reported around a checkpoint that is kept."""

    name: str
    version: NonNegativeInt
    """Policy version: the model's optimizer steps, supervised ones among them."""
    step: NonNegativeInt
    """The run's step; 0 in SFT."""
    reward: float | None = None
    """Mean reward of up to 16 steps before it."""
    evaluation_before: EvaluationView | None = None
    """The newest evaluation of its policy version or an older one."""
    evaluation_after: EvaluationView | None = None
    """The first evaluation of its policy version or a newer one."""
    metrics: dict[str, float]
    """What its own step reported, by tag; empty where that step reported nothing."""


class CheckpointMetricsList(Frozen):
    checkpoints: tuple[CheckpointMetricsView, ...]
    """Oldest first."""


class RunDeleted(Frozen):
    """The run is gone; its files follow as soon as a trainer is free."""

    id: RunId


class TrajectoryView(Frozen):
    """One recorded trajectory: how an episode went, and what became of it."""

    offset: NonNegativeInt
    """Its place in the recording; the next one's is higher."""
    fate: str | None = None
    """`trained`, `evaluated`, `stale`, `failed` or `abandoned`; `superseded` where another ending of the
    episode counted, or it came too late to; null where it is not decided."""
    step: NonNegativeInt | None = None
    """The step of its phase that trained on it, or after which it was an evaluation's."""
    advantage: float | None = None
    """How much better it did than its group; null where it was not trained on."""
    trajectory: EpisodeEnded


class MetricsView(Frozen):
    """What a run reported after one step or one evaluation."""

    number: Annotated[int, Field(ge=1)]
    """Its place among the run's reports: 1, 2, 3 and so on."""
    at_s: float
    """Unix time."""
    phase: Phase
    """`sft`, `training` or `evaluation`."""
    when: Literal["before", "during", "after"] | None = None
    """Of an evaluation: before, during or after training."""
    step: NonNegativeInt
    """Of the phase; of an evaluation, the step of training after which it was due."""
    version: NonNegativeInt
    """The newest policy that was published, or the one that was evaluated."""
    n_episodes: NonNegativeInt
    """Episodes of the run that have ended so far; of an evaluation, those it is the mean of."""
    metrics: dict[str, float]
    """Tag to value; docs/metrics.md has a line for each."""


class RunList(Frozen):
    runs: tuple[RunView, ...]


class WorkerView(Frozen):
    id: WorkerId
    role: str
    offers: tuple[str, ...]
    capacity: NonNegativeInt
    in_flight: NonNegativeInt
    n_done: NonNegativeInt
    models: tuple[str, ...]
    host: str
    pid: NonNegativeInt
    last_seen_s: float


class WorkerList(Frozen):
    workers: tuple[WorkerView, ...]


class QueueView(Frozen):
    name: str
    n_ready: NonNegativeInt
    """Messages that wait for a consumer."""


class QueueList(Frozen):
    queues: tuple[QueueView, ...]


class DeadLetterView(Frozen):
    """A message that was given up."""

    id: str
    origin: str
    """The queue that it goes back to when it is republished."""
    reason: str
    first_seen_s: float
    """Unix time of its first publishing."""
    n_failures: NonNegativeInt
    """How often it was given up: more than once after a republishing that did not help."""
    kind: str | None
    """Of its items; null where it can't be read."""
    n_items: NonNegativeInt
    runs: tuple[str, ...]
    size_bytes: NonNegativeInt


class DeadLetterDetails(Frozen):
    """A dead letter with what it says."""

    letter: DeadLetterView
    items: tuple[JsonValue, ...]
    """Its items as they are; token arrays are shown as their place in the message."""


class DeadLetterList(Frozen):
    letters: tuple[DeadLetterView, ...]
    """Oldest first."""


class Health(Frozen):
    status: str
    version: str
    broker: str
    store: str
