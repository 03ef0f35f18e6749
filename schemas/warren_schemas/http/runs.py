"""Bodies about runs: submitting, changing and showing them."""

from typing import Annotated

from pydantic import Field

from warren_schemas.base import Frozen
from warren_schemas.config import NonNegativeInt, TrainConfig
from warren_schemas.events import Phase, RunOutcome, RunState
from warren_schemas.ids import RunId

__all__ = ["RunResult", "RunView", "StateView"]

Priority = Annotated[int, Field(ge=-100, le=100)]
"""Runs of a higher one go first in the queue for trainers; above 0 only admins give."""


class SubmitRun(Frozen):
    config: TrainConfig
    idempotency_key: Annotated[str, Field(min_length=8, max_length=128)] | None = None
    """The same key gives the same run, however often it is submitted."""
    priority: Priority = 0
    """A higher one goes first in the queue for trainers, whoever owns it. Only admins give more than 0."""


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


class SetRun(Frozen):
    priority: Priority
    """A higher one goes first in the queue for trainers, whoever owns it. Only admins give more than 0."""


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
    priority: Priority = 0
    """Those of a higher one go first in the queue for trainers."""
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


class RunDeleted(Frozen):
    """The run is gone; its files follow as soon as a trainer is free."""

    id: RunId


class RunList(Frozen):
    runs: tuple[RunView, ...]
