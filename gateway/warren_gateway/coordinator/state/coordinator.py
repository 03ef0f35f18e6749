"""The whole state of one run's coordinator: its parts, and the change under way.

A part is written by its own folder alone (see the package). What is here beside them, the run's
course and the change, is written by `stages`, `stopping`, `ending` and `run_coordinator`. Functions read the parts,
change their own, and note in `change` what must become true in the store; the coordinator commits it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import BaseModel, ConfigDict, Field

from warren_broker.topology import run_events
from warren_gateway.coordinator.state.alarms import AlarmState
from warren_gateway.coordinator.state.change import Change
from warren_gateway.coordinator.state.client import ClientState
from warren_gateway.coordinator.state.learning import LearningState
from warren_gateway.coordinator.state.lease import TrainerLease
from warren_gateway.coordinator.state.observed import Observed
from warren_gateway.coordinator.state.plan import Stage, plan
from warren_gateway.coordinator.state.rollouts import RolloutState
from warren_gateway.coordinator.state.rows import Rows, RowsOfSplit
from warren_gateway.coordinator.state.source import Source
from warren_gateway.coordinator.state.waiting import WaitingState
from warren_gateway.stop_request import StopRequest
from warren_schemas.config import ClientSource, LimitsConfig, TrainConfig
from warren_schemas.datasets.sampled import is_recorded
from warren_schemas.envelope import Envelope
from warren_schemas.events import (
    EvaluationCompleted,
    Phase,
    RunEvent,
    RunEventBody,
    RunState,
    StateChanged,
    StepCompleted,
)
from warren_schemas.ids import ModelId, RunId
from warren_schemas.metrics.rows import metrics_view
from warren_schemas.training import ModelSpec


class Progress(BaseModel):
    """What is stored with every change, so that another coordinator can go on from there.

    Trajectories are not part of it: those that were not consumed are read again from the run's
    stream.
    """

    model_config = ConfigDict(extra="forbid")

    stage_number: int = 0
    """Position in the run's plan."""
    stopping: StopRequest | None = None
    """What its owner wants, and is being done."""
    n_reports: int = 0
    """Rows of metrics that were stored."""
    recording_offset: int | None = None
    """Of a replay: where to read on in the recording."""
    recording_number: int = 0
    """Which of the recordings that is."""
    recording_epoch: int = 0
    """And which time that it is read."""
    rollouts: RolloutState = Field(default_factory=RolloutState)
    learning: LearningState = Field(default_factory=LearningState)
    lease: TrainerLease = Field(default_factory=TrainerLease)
    alarms: AlarmState = Field(default_factory=AlarmState)
    client: ClientState = Field(default_factory=ClientState)


@dataclass(slots=True)
class CoordinatorState:
    run: RunId
    owner: str
    model: ModelId
    config: TrainConfig
    spec: ModelSpec
    source: "Source[CoordinatorState]"
    """Where complete groups come from."""
    rollouts: RolloutState
    learning: LearningState
    lease: TrainerLease
    alarms: AlarmState
    waiting: WaitingState
    observed: Observed
    run_state: RunState
    stage_number: int
    """Position in the run's plan."""
    n_reports: int
    created_s: float
    started_s: float | None
    now_s: float
    """Unix time of the decision under way."""
    client: ClientState = field(default_factory=ClientState)
    """Of a model that its client drives."""
    stopping: StopRequest | None = None
    """What its owner wants, and is being done."""
    limits_number: int = 0
    """How often the owner had changed the limits of `config`."""
    rows: Rows = field(default_factory=dict[str, Mapping[str, RowsOfSplit]])
    """Of the data sets that the config names; opened before the first decision."""
    epoch: int = 0
    """Of the coordinator's own lease; see `run_leases`."""
    revision: int = 0
    """Number of the newest change."""
    change: Change = field(default_factory=Change)
    stages: list[Stage] = field(init=False)
    """The run's plan."""

    def __post_init__(self) -> None:
        self.stages = plan(self.config)

    def take_limits(self, limits: LimitsConfig, number: int) -> None:
        """The owner has changed them; the plan keeps its stages (see `runs.changing`)."""
        self.config = self.config.model_copy(update={"limits": limits})
        self.limits_number = number
        self.stages = plan(self.config)

    @property
    def stage(self) -> Stage:
        return self.stages[self.stage_number]

    @property
    def is_over(self) -> bool:
        return self.run_state.is_final

    @property
    def is_clients(self) -> bool:
        """A client drives the model, with requests."""
        return isinstance(self.config.source, ClientSource)

    @property
    def plays_episodes(self) -> bool:
        """Whether the run needs samplers and environments."""
        is_evaluated_live = (
            self.config.evaluation is not None and not self.config.evaluates_recorded
        )
        return self.source.is_live or is_evaluated_live

    @property
    def needs_samplers(self) -> bool:
        """Whether the run would stand still without samplers now, or could not go on once it is opened; recorded episodes
        that are learned have their tokens."""
        now = self.stages[1] if self.stage.phase is Phase.OPENING else self.stage
        is_without = now.phase is Phase.CLOSING or (
            now.phase is Phase.SFT and self._learns_recorded
        )
        return self.plays_episodes and not is_without

    @property
    def _learns_recorded(self) -> bool:
        """All rows of a data set are of the kind of the first."""
        sft = self.config.sft
        if sft is None or sft.dataset is None or sft.dataset not in self.rows:
            return False
        return is_recorded(self.rows[sft.dataset][sft.split].row(0))

    @property
    def uses_environments(self) -> bool:
        """Whether env workers play its episodes, or play recorded ones through once more."""
        return self.plays_episodes or self.config.is_scored

    @property
    def needs_environments(self) -> bool:
        """Whether the run would stand still without env workers now; what is learned of rows, or of a recording, needs none."""
        sft, is_tuning = self.config.sft, self.stage.phase is Phase.SFT
        is_on_rows = is_tuning and sft is not None and sft.dataset is not None
        return (self.plays_episodes if is_tuning else self.uses_environments) and not is_on_rows

    @property
    def needs_trainer(self) -> bool:
        """An evaluation alone needs one until samplers can get the weights of its checkpoint or adapter."""
        if not self.config.is_evaluation:
            return True
        return self.stage.phase is Phase.OPENING and not self.config.begins_bare

    @property
    def groups_per_batch(self) -> int:
        """Groups that one step of this stage consumes."""
        sft = self.config.sft
        if self.stage.phase is Phase.SFT and sft is not None:
            return sft.episodes_per_step
        return self.config.algorithm.groups_per_step

    @property
    def has_batch(self) -> bool:
        """Whether the groups of a step are there and may be consumed."""
        return len(self.rollouts.ready) >= self.groups_per_batch and self.source.can_step(
            self.learning
        )

    def emit(self, body: RunEventBody, *, is_awaited: bool = True) -> None:
        """Tell everybody who follows the run; metrics are stored with the run as well."""
        if isinstance(body, StepCompleted | EvaluationCompleted):
            self.n_reports += 1
            self.change.reports.append(metrics_view(body, self.n_reports, self.now_s))
        event = RunEvent(envelope=Envelope(run=self.run), at_s=self.now_s, body=body)
        if is_awaited:
            self.change.send(run_events(self.run), event)
        else:
            self.change.unawaited.append((run_events(self.run), event))

    def enter(self, run_state: RunState, reason: str | None = None) -> None:
        """Enter a state, and tell everybody who follows the run."""
        self.note_state(run_state, reason)
        self.emit(StateChanged(state=run_state, phase=self.stage.phase, reason=reason))

    def note_state(self, run_state: RunState, reason: str | None = None) -> None:
        """The run is in this state from now on; its history says since when and why. Whoever calls tells of it."""
        self.run_state = run_state
        self.change.run["state"] = run_state.value
        self.change.history.append(
            {
                "run_id": self.run,
                "state": run_state.value,
                "at_s": self.now_s,
                "reason": reason,
            }
        )

    def take_change(self) -> Change:
        """The change built so far, with the progress that goes with it; a new one begins."""
        change = self.change
        self.change = Change()
        if not change.is_empty:
            self.revision += 1
            change.revision = self.revision
            change.run["progress"] = self._progress().model_dump()
            change.run["stream_offset"] = self.rollouts.resume_offset
        return change

    def _progress(self) -> Progress:
        read_from = self.source.read_from(self.rollouts)
        return Progress(
            stage_number=self.stage_number,
            stopping=self.stopping,
            n_reports=self.n_reports,
            recording_offset=None if read_from is None else read_from.offset,
            recording_number=0 if read_from is None else read_from.reading.recording,
            recording_epoch=0 if read_from is None else read_from.reading.epoch,
            rollouts=self.rollouts,
            learning=self.learning,
            lease=self.lease,
            alarms=self.alarms,
            client=self.client,
        )
