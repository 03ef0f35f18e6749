"""What the coordinator of one run knows, and the change that it is building.

The modules of this package are functions of a `Memory`: they read it, change it, and write down in
`memory.change` what must become true in the store. The actor commits the change and starts a new one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from warren_broker.topology import run_events
from warren_gateway.advice import SEPARATE_WORKERS, Advice
from warren_gateway.coordinator.change import Change
from warren_gateway.coordinator.plan import Stage, plan
from warren_gateway.coordinator.progress import Progress
from warren_gateway.coordinator.rollouts.groups import Group
from warren_gateway.store.tables import GroupRow, Model, Run
from warren_schemas.config import TrainConfig
from warren_schemas.envelope import Envelope
from warren_schemas.episode import EpisodePurpose
from warren_schemas.events import (
    EvaluationCompleted,
    Phase,
    RunEvent,
    RunEventBody,
    RunState,
    StepCompleted,
)
from warren_schemas.ids import GroupId, ModelId, RunId, WorkerId
from warren_schemas.metrics.rows import metrics_view
from warren_schemas.training import ModelSpec, OpResult

if TYPE_CHECKING:
    from warren_gateway.coordinator.rollouts.source import Source


@dataclass(slots=True)
class Lease:
    """Who trains the model; see `leases`."""

    epoch: int
    holder: WorkerId | None
    is_opened: bool
    seen_s: float
    """When the holder was last known to hold the lease (or was granted it)."""
    was_listed: bool = False
    """The holder's heartbeat has named this lease."""


@dataclass(frozen=True, slots=True)
class TrainedRun:
    """The run that a model under training belongs to."""

    id: RunId
    name: str
    owner: str


@dataclass(slots=True)
class Stillness:
    """Since when nothing of a run has moved, and how often that was told; see `notices.stalled`."""

    mark: tuple[object, ...] = ()
    """Changes whenever something moves."""
    since_s: float = 0.0
    n_told: int = 0
    reason: str | None = None
    """What was told last."""


@dataclass(slots=True)
class Memory:
    run: RunId
    owner: str
    model: ModelId
    config: TrainConfig
    spec: ModelSpec
    state: RunState
    progress: Progress
    lease: Lease
    source: "Source"
    """Where complete groups come from."""
    created_s: float
    started_s: float | None
    now_s: float
    """Unix time of the decision under way."""
    epoch: int = 0
    """Of the coordinator's own lease; see `run_leases`."""
    revision: int = 0
    """Number of the newest change."""
    advice: Advice = SEPARATE_WORKERS
    """How a worker that is missing can be had here."""
    trained_runs: Mapping[ModelId, TrainedRun] = field(default_factory=dict[ModelId, TrainedRun])
    """Whose models keep the trainers busy that this run waits for."""
    deaf_trainer: WorkerId | None = None
    """It is alive and has not taken the last grant."""
    last_op: int = 0
    done_op: int = 0
    """Every op up to this one was answered in this lease, or lies under the checkpoint."""
    answered_op: int = 0
    """The newest op that was answered in any lease."""
    policy_version: int = 0
    policy_url: str | None = None
    policies: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    """Step and version of the newest published policies, oldest first."""
    checkpoint_op: int = 0
    checkpoint_url: str | None = None
    early_answers: dict[int, OpResult] = field(default_factory=dict[int, OpResult])
    """Answers that came before those of smaller numbers."""
    groups: dict[GroupId, Group] = field(default_factory=dict[GroupId, Group])
    """Open groups."""
    ready: list[Group] = field(default_factory=list[Group])
    """Complete groups that wait to be trained on, in the order of their completion."""
    stream_offset: int = 0
    """The next trajectory message to be read."""
    waiting_for: str | None = None
    missing_since_s: float | None = None
    stillness: Stillness = field(default_factory=Stillness)
    rate_mark: tuple[float, int, int] = (0.0, 0, 0)
    """Time, episodes and tokens at the last step: for rates."""
    queue_depths: dict[str, float] = field(default_factory=dict[str, float])
    """Messages that wait in the run's queues, as metrics."""
    shares: Mapping[str, int] = field(default_factory=dict[str, int])
    """Most episodes in the air that are this run's share, by `ownership.place`; see `shares`."""
    message_sizes: Mapping[str, int] = field(default_factory=dict[str, int])
    """Most new episodes in one message, by `ownership.place`."""
    n_started_now: int = 0
    """New episodes of the decision under way."""
    is_cancel_requested: bool = False
    is_broker_away: bool = False
    """It gave no answer lately, so that no worker can be heard."""
    change: Change = field(default_factory=Change)

    @property
    def stages(self) -> list[Stage]:
        return plan(self.config)

    @property
    def stage(self) -> Stage:
        return self.stages[self.progress.stage]

    @property
    def is_over(self) -> bool:
        return self.state.is_final

    @property
    def plays_episodes(self) -> bool:
        """Whether the run needs samplers and environments."""
        return self.source.is_live or self.config.evaluation is not None

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
        return len(self.ready) >= self.groups_per_batch and self.source.can_step(self)

    def emit(self, body: RunEventBody) -> None:
        """Tell everybody who follows the run; metrics are kept with the run as well."""
        if isinstance(body, StepCompleted | EvaluationCompleted):
            self.progress.n_reports += 1
            self.change.reports.append(metrics_view(body, self.progress.n_reports, self.now_s))
        event = RunEvent(envelope=Envelope(run=self.run), at_s=self.now_s, body=body)
        self.change.send(run_events(self.run), event)

    def take_change(self) -> Change:
        """The change built so far, with the progress that goes with it; a new one begins."""
        change = self.change
        self.change = Change()
        if not change.is_empty:
            self.progress.recording_offset = self.source.resume_offset(self)
            self.revision += 1
            change.revision = self.revision
            change.run["progress"] = self.progress.model_dump()
            change.run["stream_offset"] = self.resume_offset
        return change

    @property
    def resume_offset(self) -> int:
        """Where another coordinator must begin to read to see every ending still of use."""
        held = [g.first_offset for g in self.groups.values() if g.first_offset is not None]
        return min([*held, self.stream_offset])


def remember(
    run: Run, model: Model, groups: list[GroupRow], source: "Source", now_s: float
) -> Memory:
    """The memory of a coordinator that takes the run up."""
    memory = Memory(
        run=RunId(run.id),
        owner=run.owner,
        model=ModelId(model.id),
        config=TrainConfig.model_validate(run.config),
        spec=ModelSpec.model_validate(model.spec),
        state=RunState(run.state),
        progress=Progress.model_validate(run.progress or {}),
        lease=Lease(
            model.epoch,
            WorkerId(model.holder) if model.holder else None,
            model.is_opened,
            seen_s=now_s,
        ),
        source=source,
        created_s=run.created_s,
        started_s=run.started_s,
        now_s=now_s,
        epoch=run.epoch,
        revision=run.revision,
        last_op=model.last_op,
        done_op=model.done_op,
        answered_op=model.done_op,
        policy_version=model.policy_version,
        policy_url=model.policy_url,
        policies=[(step, version) for step, version in model.policies],
        checkpoint_op=model.checkpoint_op,
        checkpoint_url=model.checkpoint_url,
        stream_offset=run.stream_offset,
        waiting_for=run.waiting_for,
        is_cancel_requested=run.is_cancel_requested,
    )
    for row in groups:
        memory.groups[GroupId(row.id)] = _group(row)
    return memory


def _group(row: GroupRow) -> Group:
    return Group(
        id=GroupId(row.id),
        number=row.number,
        purpose=EpisodePurpose(row.purpose),
        environment=row.environment,
        task_index=row.task_index,
        min_version=row.min_version,
        deadline_s=row.deadline_s,
        attempts=list(row.attempts),
    )
