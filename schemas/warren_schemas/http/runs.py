"""Bodies about runs: submitting, changing and showing them."""

from typing import Annotated, Literal, Self

from pydantic import Field, JsonValue, model_validator

from warren_schemas.base import Frozen
from warren_schemas.config import NonNegativeInt, TrainConfig
from warren_schemas.events import Phase, RunOutcome, RunState
from warren_schemas.ids import RunId

__all__ = ["RunResult", "RunView", "StateView"]

Priority = Annotated[int, Field(ge=-100, le=100)]
"""Runs of a higher one go first in the queue for trainers; above 0 only admins give."""


SweepName = Annotated[
    str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
]
"""Letters, digits, `.`, `-` and `_`."""


OnDisconnect = Literal["detach", "cancel"]
"""Whether a run goes on without the client that submitted it, or is saved and cancelled."""
CLIENT_LEASE_S = 60.0
ClientLeaseS = Annotated[float, Field(ge=2.0, le=86_400.0)]


class SubmitRun(Frozen):
    config: TrainConfig
    idempotency_key: Annotated[str, Field(min_length=8, max_length=128)] | None = None
    """The same key gives the same run, however often it is submitted."""
    priority: Priority = 0
    """A higher one goes first in the queue for trainers, whoever owns it. Only admins give more than 0."""
    sweep: SweepName | None = None
    """The group of runs that it is one of."""
    on_disconnect: OnDisconnect = "detach"
    """`cancel`: the run is saved and cancelled once its client has renewed its lease for `client_lease_s` no more."""
    client_lease_s: ClientLeaseS | None = None
    """Null is 60 s."""

    @model_validator(mode="after")
    def _has_an_effect(self) -> Self:
        if self.client_lease_s is not None and self.on_disconnect == "detach":
            raise ValueError("`client_lease_s` is for runs with `on_disconnect: cancel`")
        return self

    @property
    def client_lease_in_force_s(self) -> float | None:
        """None where the run needs no client."""
        return (self.client_lease_s or CLIENT_LEASE_S) if self.on_disconnect == "cancel" else None


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
    """Tokens sampled, in completed episodes; of a replay also those that were recorded and trained on."""
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
    priority: Priority | None = None
    """A higher one goes first in the queue for trainers, whoever owns it. Only admins give more than 0. Null
    leaves it."""
    limits: dict[str, JsonValue] = Field(default_factory=dict)
    """Keys of the config's `limits` with their new values; all others stay."""
    on_disconnect: Literal["detach"] | None = None
    """`detach` lets it go on without its client. Null leaves it."""

    @model_validator(mode="after")
    def _changes_something(self) -> Self:
        if self.priority is None and not self.limits and self.on_disconnect is None:
            raise ValueError("nothing is set: give `limits`, `priority` or `on_disconnect`")
        return self


class ClientLease(Frozen):
    """The client of a run is taken to be there."""

    run: RunId
    state: RunState
    until_s: float
    """Unix time."""


class QueuePlace(Frozen):
    """Where a run's job stands among those that wait for a trainer."""

    number: Annotated[int, Field(ge=1)]
    """1 is next. Those that could not start now, whoever made room, come after all others."""
    n_ahead_own: NonNegativeInt
    """Of those before it, the same owner's."""
    n_ahead_others: NonNegativeInt
    reason: str
    """Why it waits, a sentence without its full stop."""

    @property
    def position(self) -> str:
        """In words: `number 3 (1 of yours and 1 of others before it)`."""
        ahead = [f"{self.n_ahead_own} of yours"] if self.n_ahead_own else []
        ahead += [f"{self.n_ahead_others} of others"] if self.n_ahead_others else []
        told = f" ({' and '.join(ahead)} before it)" if ahead else ""
        return f"number {self.number}{told}"


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
    on_disconnect: OnDisconnect = "detach"
    client_lease_s: float | None = None
    """How long its client may be silent, where it ends with its client."""
    client_until_s: float | None = None
    """Unix time until which its client is taken to be there."""
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
    sweep: str | None = None
    """The group of runs that it was submitted with."""
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
