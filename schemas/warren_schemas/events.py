"""What happens to a run, as facts in the past tense -> stream events.<run>; what the parts that work for it
say meanwhile -> stream logs.<run>.

People follow them live (SSE, `warren train`, `warren logs`), TensorBoard files are written from events, and because
they lie in streams they can be read again from any offset.
"""

from enum import StrEnum
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from warren_schemas.base import Frozen
from warren_schemas.config import AlarmName, NonNegativeInt, PositiveInt
from warren_schemas.envelope import Item


class RunState(StrEnum):
    QUEUED = "queued"
    """It waits for a trainer."""
    STARTING = "starting"
    """A trainer loads its model."""
    RUNNING = "running"
    FINISHING = "finishing"
    """It takes no more steps: a last evaluation, a last checkpoint."""
    PAUSED = "paused"
    """Its owner has paused it: it is saved, and holds no trainer."""
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        return self in (RunState.COMPLETED, RunState.FAILED, RunState.CANCELLED)


class Phase(StrEnum):
    OPENING = "opening"
    """Waiting for a trainer to take the model."""
    SFT = "sft"
    EVALUATION = "evaluation"
    TRAINING = "training"
    CLOSING = "closing"


class RunOutcome(StrEnum):
    """What came of a run that completed."""

    TRAINED = "trained"
    """At least one update was made; of supervised ones where its limits ask for no others."""
    EVALUATED = "evaluated"
    """It was an evaluation alone."""
    NOTHING_LEARNED = "nothing_learned"
    """It took steps, and none of them learned from rewards: all groups had zero variance."""
    NOTHING_TO_DO = "nothing_to_do"
    """Its checkpoint had all the steps, or the reward, that its limits ask for."""


class StateChanged(Frozen):
    kind: Literal["state_changed"] = "state_changed"
    state: RunState
    phase: Phase | None = None
    reason: str | None = None
    """Why, where there is more to say than the state says: what is loaded, who asked for it, why a run failed or
    was cancelled, what there is to remark on one that completed."""
    outcome: RunOutcome | None = None
    """Of a run that completed."""


class WaitingStarted(Frozen):
    """The run can't go on until somebody does something."""

    kind: Literal["waiting_started"] = "waiting_started"
    reason: str


class WaitingEnded(Frozen):
    kind: Literal["waiting_ended"] = "waiting_ended"


class StepCompleted(Frozen):
    """One batch was consumed, and the update that it led to, if any, is published."""

    kind: Literal["step_completed"] = "step_completed"
    phase: Phase
    step: NonNegativeInt
    """Of its phase: of reinforcement learning, or a supervised one of SFT."""
    n_steps: NonNegativeInt
    version: NonNegativeInt
    """Policy version: the model's optimizer steps, supervised ones among them."""
    updates: NonNegativeInt = 0
    """Optimizer steps of reinforcement learning so far."""
    n_episodes: NonNegativeInt
    """Episodes of the run that have ended so far."""
    metrics: dict[str, float]
    """TensorBoard tag to value, for example `reward/mean`."""


class EvaluationCompleted(Frozen):
    kind: Literal["evaluation_completed"] = "evaluation_completed"
    when: Literal["before", "during", "after"]
    step: NonNegativeInt
    """Steps of reinforcement learning before it."""
    version: NonNegativeInt
    """The policy version that was evaluated."""
    due_version: NonNegativeInt | None = None
    """The one in force after `step`, where it was no longer kept and the next one stood in for it."""
    n_episodes: NonNegativeInt
    reward_mean: float
    metrics: dict[str, float]


class WarningRaised(Frozen):
    """Something a person should look at; the run goes on."""

    kind: Literal["warning_raised"] = "warning_raised"
    message: str
    alarm: AlarmName | None = None
    """Which alarm it is, if it is one; `limits.stop_on` may name it."""


RunEventBody = Annotated[
    StateChanged
    | WaitingStarted
    | WaitingEnded
    | StepCompleted
    | EvaluationCompleted
    | WarningRaised,
    Field(discriminator="kind"),
]


class RunEvent(Item):
    kind: ClassVar[str] = "run_event"
    schema_version: ClassVar[int] = 1
    at_s: float
    """Unix time."""
    body: RunEventBody


class LogLevel(StrEnum):
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogComponent(StrEnum):
    """Which component logs."""

    COORDINATOR = "coordinator"
    TRAINER = "trainer"
    SAMPLER = "sampler"
    ENV_WORKER = "env_worker"


MAX_LOG_CHARS = 2000


class LogLine(Frozen):
    number: PositiveInt
    """Of its source: 1, 2, 3 and so on. Those that were left out are counted."""
    at_s: float
    """Unix time."""
    level: LogLevel
    text: Annotated[str, Field(max_length=MAX_LOG_CHARS, pattern=r"^[^\x00-\x1f\x7f-\x9f]*$")]
    """One line, without control characters: it is shown at terminals."""


class RunLogged(Item):
    """What one component logs while it works for a run -> stream logs.<run>.

    A source that says too much leaves lines out. Which, the numbers tell, whatever the reason is that one
    is missing; so they tell a line that comes twice.
    """

    kind: ClassVar[str] = "run_logged"
    schema_version: ClassVar[int] = 1
    component: LogComponent
    worker: Annotated[str, Field(max_length=128)]
    source: Annotated[str, Field(max_length=64)]
    """Whose lines are numbered together: one component of one process, for one run."""
    n_logged: NonNegativeInt
    """Lines of this source by now, those that were left out among them."""
    lines: Annotated[tuple[LogLine, ...], Field(max_length=256)] = ()
