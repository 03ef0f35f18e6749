"""What a run's owner asks of it while it goes on: to finish, to save and be cancelled, to pause.

Invariants: what is being done is stored with the change that began it, so whoever takes the run over goes on
with it; a run that finishes, saves or pauses starts no episodes and takes no batch; it is paused, or cancelled, only
once every op in its log is answered and its newest checkpoint is saved. A stronger request takes the place of a
weaker one at any time; a pause alone is taken back. A paused run holds neither a trainer, nor a job message,
nor a place in the queue; when it is resumed it queues behind those that were there before.
"""

from warren_gateway.coordinator import waiting
from warren_gateway.coordinator.clients import requests
from warren_gateway.coordinator.ending import End
from warren_gateway.coordinator.learning import checkpointing, op_log, resuming, steps
from warren_gateway.coordinator.lease import trainer_lease
from warren_gateway.coordinator.rollouts import completed, episodes, evaluation
from warren_gateway.coordinator.state.coordinator import CoordinatorState
from warren_gateway.stop_request import StopRequest
from warren_schemas.events import Phase, RunState

_FINISHING = "its owner ended it early"
_LEFT = "its client has left"
_SAVING = "it is saved, and then cancelled by its owner"
_SAVING_FOR_NOBODY = "its client is gone: it is saved, and then cancelled"
_BY_OWNER = "cancelled by its owner"
_FOR_NOBODY = "cancelled, for its client was gone"
_PAUSED = "paused by its owner"
_RESUMED = "resumed by its owner"


def carry_out(state: CoordinatorState) -> End | None:
    """Begin with what is wanted now, and do what can be done of it; how the run ends, if that is done."""
    wanted = state.observed.stop_request or _of_silence(state)
    if state.stopping is StopRequest.PAUSE and wanted is None:
        _resume(state)
    elif wanted is not None and wanted is not state.stopping:
        _begin(state, wanted)
    if not is_still(state) or not _is_saved(state):
        return None
    if state.stopping is not StopRequest.PAUSE:
        return End(RunState.CANCELLED, _cancelled_reason(state))
    if not is_paused(state):
        _pause(state)
    return None


def _of_silence(state: CoordinatorState) -> StopRequest | None:
    """A model whose client has left is closed, and its checkpoints stay."""
    is_still_wanted = state.stopping is StopRequest.PAUSE or not state.is_clients
    return StopRequest.FINISH if not is_still_wanted and requests.has_left(state) else None


def is_for_nobody(state: CoordinatorState) -> bool:
    """Whether its client has left before a trainer was found: it has nothing to save, and takes none."""
    is_unstarted = state.started_s is None and state.lease.holder is None
    return is_unstarted and _of_silence(state) is not None


def is_paused(state: CoordinatorState) -> bool:
    """Whether it takes no trainer."""
    return state.run_state is RunState.PAUSED


def is_still(state: CoordinatorState) -> bool:
    """Whether nothing goes on but the saving of what there is."""
    return state.stopping in (
        StopRequest.SAVE_AND_CANCEL,
        StopRequest.CLIENT_GONE,
        StopRequest.PAUSE,
    )


def is_finishing(state: CoordinatorState) -> bool:
    return state.stopping is StopRequest.FINISH


def unhosted(state: CoordinatorState, without_worker: frozenset[int]) -> frozenset[int]:
    """The environments to which nothing is sent: all of them, while a run is still, and the rows that are learned
    (`conversations.next_environment`)."""
    n_all = len(state.config.environments) + 1
    return frozenset(range(n_all)) if is_still(state) else without_worker


def advance_to_end(state: CoordinatorState) -> bool:
    """Instead of a stage whose steps are not wanted any more; True once nothing of it is under way."""
    if state.config.is_evaluation:
        evaluation.cut_short(state)
    completed.abandon(state)
    evaluation.drop(state)
    steps.publish_unpublished(state)
    return not state.learning.steps.pending and not op_log.has_unanswered(state.learning)


def _begin(state: CoordinatorState, wanted: StopRequest) -> None:
    state.stopping = wanted
    if wanted is StopRequest.FINISH:
        state.enter(RunState.FINISHING, _LEFT if _of_silence(state) else _FINISHING)
    elif wanted in (StopRequest.SAVE_AND_CANCEL, StopRequest.CLIENT_GONE):
        completed.abandon(state)
        evaluation.drop(state)
        reason = _SAVING if wanted is StopRequest.SAVE_AND_CANCEL else _SAVING_FOR_NOBODY
        state.enter(RunState.FINISHING, reason)
        checkpointing.checkpoint_if_new(state)
    else:
        episodes.recall(state)
        checkpointing.checkpoint_if_new(state)


def _is_saved(state: CoordinatorState) -> bool:
    """Whether everything that was done is in a checkpoint."""
    learning = state.learning
    return checkpointing.is_saved(learning) and not op_log.has_unanswered(learning)


def _pause(state: CoordinatorState) -> None:
    waiting.forget(state)
    state.enter(RunState.PAUSED, _PAUSED)
    trainer_lease.withdraw(state)


def _resume(state: CoordinatorState) -> None:
    """What was in flight starts again."""
    state.stopping = None
    episodes.start_recalled(state.rollouts)
    if is_paused(state):
        state.enter(RunState.QUEUED, _RESUMED)
        trainer_lease.queue_again(state)


def _cancelled_reason(state: CoordinatorState) -> str:
    marks = state.learning.checkpoints.marks
    return f"{who_cancels(state)}{f'; saved as {marks[-1].name}' if marks else ''}"


def who_cancels(state: CoordinatorState) -> str:
    """The reason of its end."""
    is_gone = state.observed.stop_request is StopRequest.CLIENT_GONE or is_for_nobody(state)
    return _FOR_NOBODY if is_gone else _BY_OWNER


def note_opened(state: CoordinatorState) -> None:
    """A trainer has the model of a run that was under way before, or it needs none."""
    is_waiting = state.run_state is RunState.STARTING and state.stage.phase is not Phase.OPENING
    is_resumed = state.run_state is RunState.QUEUED and not state.needs_trainer
    if is_resumed or (is_waiting and resuming.is_ready(state.lease, state.learning)):
        state.enter(RunState.RUNNING)
