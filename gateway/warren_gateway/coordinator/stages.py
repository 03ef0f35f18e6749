"""The stages of a run's plan: opening, supervised fine-tuning, evaluations, training, closing; one after another.

Pure, like `decisions`. A stage's `advance` may be called at any time. Invariants: a stage is entered once, and is
left when nothing of it is under way; a run that finishes passes over what is not needed, and never over the closing,
which saves it.
"""

from warren_gateway.coordinator import stopping
from warren_gateway.coordinator.clients import requests
from warren_gateway.coordinator.ending import End, completed_end, failed
from warren_gateway.coordinator.learning import (
    checkpointing,
    op_log,
    resuming,
    sft,
    step_times,
    steps,
    training,
)
from warren_gateway.coordinator.lease import trainer_lease
from warren_gateway.coordinator.replaying.source import Recorded
from warren_gateway.coordinator.rollouts import completed, episodes, evaluation
from warren_gateway.coordinator.state.coordinator import CoordinatorState
from warren_gateway.coordinator.state.learning import LearningState
from warren_gateway.coordinator.state.rollouts import RolloutState
from warren_schemas.events import Phase, RunState, StateChanged
from warren_schemas.training import KeepReference


def go_on(state: CoordinatorState) -> End | None:
    """Do what the stages allow, one after another; how the run is to end, once they say so."""
    while True:
        done = _advance(state)
        if isinstance(done, End):
            return done
        if done:
            _next_stage(state)
        if not (steps.settle(state) or done):
            return None


def _advance(state: CoordinatorState) -> bool | End:
    """Whether this stage is done, or how the run ends in it."""
    if stopping.is_still(state):
        return False
    return stopping.advance_to_end(state) if _is_cut_short(state) else _advance_stage(state)


def _is_cut_short(state: CoordinatorState) -> bool:
    """Whether the run finishes, and this is no stage that it goes through nevertheless."""
    is_after = state.stage.when == "after" and not state.config.is_evaluation
    is_needed = is_after or state.stage.phase in (Phase.OPENING, Phase.CLOSING)
    return stopping.is_finishing(state) and not is_needed


def _advance_stage(state: CoordinatorState) -> bool | End:
    match state.stage.phase:
        case Phase.OPENING:
            return resuming.is_ready(state.lease, state.learning) or not state.needs_trainer
        case Phase.SFT:
            return _advance_sft(state)
        case Phase.EVALUATION:
            evaluation.advance(state)
            return state.rollouts.evaluation is None
        case Phase.TRAINING:
            return _advance_training(state)
        case Phase.CLOSING:
            return _advance_closing(state)


def _advance_sft(state: CoordinatorState) -> bool | End:
    assert state.config.sft is not None
    sft.advance(state, state.config.sft)
    if end := failed(sft.reason_to_end(state.learning, state.config.sft)):
        return end
    is_published = state.learning.steps.n_published >= state.stage.n_steps
    return is_published or _is_exhausted(state)


def _advance_training(state: CoordinatorState) -> bool | End:
    if state.is_clients:
        requests.advance(state)
        return False
    training.advance(state)
    evaluation.advance(state)
    is_exhausted = _is_exhausted(state)
    if is_exhausted and not state.learning.steps.n_consumed:
        return End(RunState.FAILED, _empty_reason(state))
    has_enough = is_exhausted or not training.steps_left(state)
    return has_enough and _is_quiet(state.learning, state.rollouts)


def _advance_closing(state: CoordinatorState) -> bool | End:
    checkpointing.checkpoint_at_end(state)
    return completed_end(state) if checkpointing.is_saved(state.learning) else False


def _is_exhausted(state: CoordinatorState) -> bool:
    """Nothing more comes, and what came is not enough for another step."""
    is_short = len(state.rollouts.ready) < state.groups_per_batch
    return is_short and state.source.is_dry() and not state.learning.steps.pending


def _empty_reason(state: CoordinatorState) -> str:
    n_groups, source = state.groups_per_batch, state.source
    unscored = source.unscored if isinstance(source, Recorded) else None
    return (
        f"the recording holds no {n_groups} complete groups from where it was to be replayed on"
        f"{'' if unscored is None else f' that could be scored anew: {unscored}'}"
    )


def _is_quiet(learning: LearningState, rollouts: RolloutState) -> bool:
    """Every step is published, and what that made due is evaluated."""
    return not (learning.steps.pending or rollouts.evaluation or rollouts.due_evaluations)


def _next_stage(state: CoordinatorState) -> None:
    """Leave this stage; after the opening, pass over what the run that is resumed has done."""
    state.change.follows_from_limits |= state.stage.phase is Phase.TRAINING
    completed.abandon(state)
    state.stage_number = resuming.next_stage(state.learning, after=state.stage_number)
    n_done = state.learning.steps.n_consumed * state.groups_per_batch
    episodes.begin_stage(state.rollouts, n_done)
    _enter(state)


def _enter(state: CoordinatorState) -> None:
    stage = state.stage
    reason = None
    is_last = stage.when == "after" and not state.config.is_evaluation
    if stage.phase is Phase.CLOSING or is_last:
        reason = "its last evaluation" if is_last else "its last checkpoint"
        state.note_state(RunState.FINISHING, reason)
    elif state.run_state in (RunState.QUEUED, RunState.STARTING) and (
        state.lease.is_opened or not state.needs_trainer
    ):
        state.note_state(RunState.RUNNING)
    if not state.needs_trainer:
        trainer_lease.release(state)
    if state.started_s is None:
        state.started_s = state.now_s
        state.change.run["started_s"] = state.now_s
    state.change.run["phase"] = stage.phase.value
    if stage.n_steps:
        steps.show(state)
    state.emit(StateChanged(state=state.run_state, phase=stage.phase, reason=reason))
    state.source.enter_stage(state)
    step_times.start_clock(state)
    is_training = stage.phase is Phase.TRAINING
    if is_training and state.config.algorithm.kl and not state.learning.resumed.has_reference:
        op_log.append(state, KeepReference())
    if stage.phase is Phase.EVALUATION and state.config.evaluation and stage.when:
        evaluation.start(state, state.config.evaluation, stage.when)
