"""Going on from a checkpoint: of another run, or with an adapter that somebody trained.

A checkpoint carries its position: which step it was, and which tasks were taken and which of them were
not trained on yet. A run that resumes from it continues the count, the learning rate and the tasks.

Invariant: tasks that were in flight when the checkpoint was made are played again, so together the
two runs train on what one run would have trained on.
"""

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from warren_gateway.coordinator.learning.op_log import append
from warren_gateway.coordinator.rollouts import held_out, tasks
from warren_gateway.coordinator.rollouts.curricula import choice
from warren_gateway.coordinator.state.coordinator import CoordinatorState
from warren_gateway.coordinator.state.curricula import Estimates
from warren_gateway.coordinator.state.groups import Group
from warren_gateway.coordinator.state.learning import LearningState
from warren_gateway.coordinator.state.lease import TrainerLease
from warren_schemas.config import LoraUpdate
from warren_schemas.episode import EpisodePurpose
from warren_schemas.events import Phase
from warren_schemas.training import OpDone, PublishPolicy


class CheckpointPosition(BaseModel):
    """Where a run stood at a checkpoint."""

    model_config = ConfigDict(extra="forbid")

    phase: Phase
    """`sft` or `training`."""
    step: int
    """Batches of the phase that were consumed."""
    n_updates: int
    next_group: int
    task_cursors: dict[str, int]
    tasks_again: list[tuple[str, int, int]] = Field(default_factory=list[tuple[str, int, int]])
    """Purpose, environment and index of tasks that were taken and not trained on."""
    curricula: dict[str, Estimates] = Field(default_factory=dict[str, Estimates])
    recent_rewards: list[float]
    has_reference: bool


def checkpoint_position(state: CoordinatorState) -> dict[str, JsonValue]:
    """What the next checkpoint says about the run; the batch under way counts as consumed."""
    is_sft = state.stage.phase is Phase.SFT
    mark = CheckpointPosition(
        phase=Phase.SFT if is_sft else Phase.TRAINING,
        step=state.learning.steps.n_consumed if is_sft else state.learning.steps.n_trained,
        n_updates=state.learning.steps.n_updates,
        next_group=state.rollouts.next_group,
        task_cursors=held_out.other_cursors(state),
        tasks_again=[
            (group.purpose.value, group.environment, group.task.index)
            for group in sorted(state.rollouts.groups.values(), key=lambda group: group.number)
            if not _begins_anew(state, group)
        ],
        curricula=state.rollouts.curricula,
        recent_rewards=state.learning.batches.recent_rewards,
        # It is kept on entering the training, before the first of its checkpoints.
        has_reference=state.config.algorithm.kl is not None and not is_sft,
    )
    return mark.model_dump(mode="json")


def _begins_anew(state: CoordinatorState, group: Group) -> bool:
    """Evaluations begin with the first task, or row."""
    return group.purpose is EpisodePurpose.EVALUATE or held_out.is_held_out(state, group)


def note_opened(learning: LearningState, opened: OpDone) -> None:
    """A trainer has the model: what it says of it."""
    learning.policy.tokenizer = opened.tokenizer
    learning.policy.vocabulary_size = opened.vocabulary_size


def begin(state: CoordinatorState, opened: OpDone) -> None:
    """The model is open for the first time: take up where its checkpoint was made.

    Samplers know neither these weights nor those of an adapter, so they are published first.
    """
    update = state.spec.update
    if state.config.resume_from is not None:
        state.learning.policy.version_issued = opened.version
        if opened.note is not None:
            _adopt(state, CheckpointPosition.model_validate(opened.note))
    elif not (isinstance(update, LoraUpdate) and update.start_adapter is not None):
        return
    state.learning.ops.start = append(state, PublishPolicy())


def _adopt(state: CoordinatorState, mark: CheckpointPosition) -> None:
    tasks.resume(state.rollouts, mark.next_group, mark.task_cursors, mark.tasks_again)
    choice.resume(state.rollouts, mark.curricula)
    learning = state.learning
    learning.steps.n_updates = mark.n_updates
    learning.batches.recent_rewards = list(mark.recent_rewards)
    learning.resumed.has_reference = mark.has_reference
    phases = [stage.phase for stage in state.stages]
    if mark.phase in phases:
        learning.resumed.stage, learning.resumed.step = phases.index(mark.phase), mark.step
    if mark.phase is Phase.TRAINING:
        learning.steps.n_at_start = learning.steps.n_trained = mark.step


def is_ready(lease: TrainerLease, learning: LearningState) -> bool:
    """The model is open, and samplers can get what it starts with."""
    return lease.is_opened and learning.ops.done >= learning.ops.start


def next_stage(learning: LearningState, after: int) -> int:
    """Begin the stage after this one, or after the opening the one that the other run stood in; which."""
    stage, n_steps = after + 1, 0
    if learning.resumed.stage is not None:
        stage, n_steps = learning.resumed.stage, learning.resumed.step
        learning.resumed.stage = None
    learning.steps.n_consumed = learning.steps.n_published = n_steps
    return stage
