"""Going on from a checkpoint: of another run, or with an adapter that somebody trained.

A checkpoint carries a landmark: which step it was, and which tasks were taken and which of them were
not trained on yet. A run that resumes from it continues the count, the learning rate and the tasks.

Invariant: tasks that were in the air when the checkpoint was made are played again, so together the
two runs train on what one run would have trained on.
"""

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from warren_gateway.coordinator.learning.op_log import append
from warren_gateway.coordinator.state import Memory
from warren_schemas.config import LoraUpdate
from warren_schemas.events import Phase
from warren_schemas.training import OpDone, PublishPolicy


class Landmark(BaseModel):
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
    recent_rewards: list[float]
    has_reference: bool


def landmark(memory: Memory) -> dict[str, JsonValue]:
    """What the next checkpoint says about the run; the batch under way counts as consumed."""
    progress, is_sft = memory.progress, memory.stage.phase is Phase.SFT
    mark = Landmark(
        phase=Phase.SFT if is_sft else Phase.TRAINING,
        step=progress.n_consumed_steps if is_sft else progress.n_trained_steps,
        n_updates=progress.n_updates,
        next_group=progress.next_group,
        task_cursors=progress.task_cursors,
        tasks_again=[
            (group.purpose.value, group.environment, group.task_index)
            for group in sorted(memory.groups.values(), key=lambda group: group.number)
        ],
        recent_rewards=progress.recent_rewards,
        # It is kept on entering the training, before the first of its checkpoints.
        has_reference=memory.config.algorithm.kl is not None and not is_sft,
    )
    return mark.model_dump(mode="json")


def begin(memory: Memory, opened: OpDone) -> None:
    """The model is open for the first time: take up where its checkpoint was made.

    Samplers know neither these weights nor those of an adapter, so they are published first.
    """
    progress, update = memory.progress, memory.spec.update
    if memory.config.resume_from is not None:
        progress.version_issued = opened.version
        if opened.note is not None:
            _adopt(memory, Landmark.model_validate(opened.note))
    elif not (isinstance(update, LoraUpdate) and update.start_adapter is not None):
        return
    progress.start_op = append(memory, PublishPolicy())


def _adopt(memory: Memory, mark: Landmark) -> None:
    progress = memory.progress
    progress.next_group, progress.n_updates = mark.next_group, mark.n_updates
    progress.task_cursors = dict(mark.task_cursors)
    progress.tasks_again = list(mark.tasks_again)
    progress.recent_rewards = list(mark.recent_rewards)
    progress.has_reference = mark.has_reference
    phases = [stage.phase for stage in memory.stages]
    if mark.phase in phases:
        progress.resumed_stage, progress.resumed_step = phases.index(mark.phase), mark.step
    progress.n_updates_at_start = mark.n_updates
    if mark.phase is Phase.TRAINING:
        progress.n_steps_at_start = progress.n_trained_steps = mark.step


def is_ready(memory: Memory) -> bool:
    """The model is open, and samplers can get what it starts with."""
    return memory.lease.is_opened and memory.done_op >= memory.progress.start_op


def skip_done(memory: Memory) -> None:
    """After the opening: pass over the stages, and the steps, that the other run has done."""
    progress = memory.progress
    if progress.resumed_stage is None:
        return
    progress.stage, progress.resumed_stage = progress.resumed_stage, None
    progress.n_consumed_steps = progress.n_published_steps = progress.resumed_step
    progress.n_admitted = progress.resumed_step * memory.groups_per_batch
