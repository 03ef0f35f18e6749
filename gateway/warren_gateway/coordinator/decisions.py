"""The decisions of a coordinator: what to do about what has come in.

Pure: a function of the state, which holds the time and all that was seen; everything that a decision does is in
the state and in `state.change`, but for the ids of new groups and messages. A stage's `advance` may be called at any time.
"""

from warren_gateway.coordinator import (
    ending,
    idle_trainer,
    moving,
    stopping,
    trainer_lease,
    waiting,
)
from warren_gateway.coordinator.clients import requests
from warren_gateway.coordinator.learning import (
    checkpointing,
    op_log,
    resuming,
    sft,
    step_times,
    steps,
    training,
)
from warren_gateway.coordinator.notices import loading
from warren_gateway.coordinator.replaying.source import Recorded
from warren_gateway.coordinator.rollouts import (
    completed,
    conversations,
    episodes,
    evaluation,
    failure_limits,
)
from warren_gateway.coordinator.rollouts.trainable import other_tokenizer
from warren_gateway.coordinator.state.coordinator import CoordinatorState
from warren_gateway.coordinator.state.groups import Group
from warren_gateway.coordinator.state.learning import LearningState
from warren_gateway.coordinator.state.recorded import Message
from warren_gateway.coordinator.state.rollouts import RolloutState
from warren_gateway.coordinator.waiting import Alive
from warren_gateway.position import Position
from warren_schemas.control import WorkerRole
from warren_schemas.episode import EpisodeEnded
from warren_schemas.events import Phase, RunState, StateChanged
from warren_schemas.training import KeepReference, is_full


def absorb_ending(state: CoordinatorState, item: EpisodeEnded, position: Position) -> None:
    """An episode has ended."""
    if state.is_over:
        return
    group = episodes.absorb(state, item, position)
    is_own = item.spec.policy.model == state.model
    if is_own and (reason := _foreign(state, item)) is not None:
        return ending.end(state, RunState.FAILED, reason)
    if group is not None:
        _complete(state, group)


def _foreign(state: CoordinatorState, item: EpisodeEnded) -> str | None:
    """Why an episode that the run's own policy is said to have played can't be its."""
    issued, newest = state.learning.policy.version_issued, item.transcript.newest_version
    if newest > issued:
        return trainer_lease.ahead_reason("a sampler", newest, issued)
    if (reason := other_tokenizer(item, state.learning.policy.tokenizer)) is None:
        return None
    if item.worker == conversations.NO_HOME:
        return f"{reason}; fine-tune a model with its tokenizer, or collect the words with --kind messages"
    return f"{reason}; give samplers and trainers of {state.spec.base_model} the same folder"


def absorb_recorded(state: CoordinatorState, message: Message) -> None:
    """One message of a recording that is replayed was read."""
    if not state.is_over and isinstance(state.source, Recorded):
        state.source.read(state, message)


def decide(state: CoordinatorState, alive: Alive) -> None:
    """Do what can be done now."""
    if isinstance(state.source, Recorded) and not state.is_over:
        state.source.go_on(state)
    without_worker = waiting.unhosted(state, alive)
    episodes.begin_decision(state.rollouts, stopping.unhosted(state, without_worker))
    if state.is_over:
        return
    if (why := _reason_to_end(state)) is not None:
        return ending.end(state, *why)
    stopping.carry_out(state)
    episodes.begin_decision(state.rollouts, stopping.unhosted(state, without_worker))
    stopping.note_opened(state)
    if not state.is_over:
        _expire(state, alive)
    if isinstance(state.source, Recorded) and not (state.is_over or stopping.is_finishing(state)):
        state.source.score(state)
    if not state.is_over and not stopping.is_paused(state):
        loading.note(state, alive(WorkerRole.TRAINER))
        waiting.report(state, alive)
        idle_trainer.release_if_idle(state)
        moving.move_if_drained(state, alive, is_still=stopping.is_still(state))
    while not state.is_over:
        has_moved = _advance(state)
        if not steps.settle(state) and not has_moved:
            break


def stand_still(state: CoordinatorState, alive: Alive) -> None:
    """Nothing but what can be decided without the rows of its data sets: that it waits for them, or ends."""
    if (why := _reason_to_end(state)) is not None:
        ending.end(state, *why)
    elif not stopping.is_paused(state):
        waiting.report(state, alive)


def _reason_to_end(state: CoordinatorState) -> tuple[RunState, str] | None:
    if state.observed.is_cancel_requested or stopping.is_for_nobody(state):
        return RunState.CANCELLED, stopping.who_cancels(state)
    reason = (
        waiting.given_up(state)
        or trainer_lease.reason_to_end(state.lease, state.learning.ops.answered)
        or failure_limits.reason_to_end(state.rollouts, state.config)
        or state.source.failure(state)
        or state.alarms.stop_reason
    )
    return None if reason is None else (RunState.FAILED, reason)


def wants_trainer(state: CoordinatorState, alive: Alive) -> bool:
    """Whether somebody must be given the lease of the model.

    While the broker is away nobody can be heard, and the holder's lease goes on. A model that has a
    trainer to itself waits for its environments first: others can use the trainer meanwhile.
    """
    if state.is_over or state.observed.is_cancel_requested or stopping.is_paused(state):
        return False
    if state.observed.is_broker_away:
        trainer_lease.still_held(state)
    is_wanted = trainer_lease.watch(state, alive(WorkerRole.TRAINER))
    is_wanted = is_wanted and idle_trainer.is_needed(state) and state.needs_trainer
    return is_wanted and not (is_full(state.spec) and waiting.lacks_environment(state, alive))


def next_deadline_s(state: CoordinatorState) -> float:
    """When a decision is due even if nothing comes in."""
    if state.rollouts.n_started_now >= episodes.MOST_AT_ONCE:
        return state.now_s
    times = (
        episodes.next_deadline_s(state.rollouts),
        waiting.next_check_s(state),
        trainer_lease.next_check_s(state.lease, state.now_s),
        state.source.next_check_s(state),
        _next_request_check_s(state),
    )
    return min(time for time in times if time is not None)


def _next_request_check_s(state: CoordinatorState) -> float | None:
    if not state.is_clients:
        return None
    stays = not (stopping.is_still(state) or stopping.is_finishing(state))
    is_advancing = stays and state.stage.phase is Phase.TRAINING
    return requests.next_check_s(state, is_advancing=is_advancing)


def _expire(state: CoordinatorState, alive: Alive) -> None:
    """The end of the run closes every group, also those of this round that were not looked at."""
    for group in episodes.expire(state, is_sampled=waiting.is_sampled(state, alive)):
        if state.is_over:
            return
        _complete(state, group)


def _complete(state: CoordinatorState, group: Group) -> None:
    """Whatever may still come changes nothing for this group."""
    if (reason := completed.take_in(state, group)) is not None:
        ending.end(state, RunState.FAILED, reason)


def _advance(state: CoordinatorState) -> bool:
    """Do what this stage allows; True when the next stage began."""
    if stopping.is_still(state):
        return False
    is_done = stopping.advance_to_end(state) if _is_cut_short(state) else _advance_stage(state)
    if is_done:
        _next_stage(state)
    return is_done


def _is_cut_short(state: CoordinatorState) -> bool:
    """Whether the run finishes, and this is no stage that it goes through nevertheless."""
    is_after = state.stage.when == "after" and not state.config.is_evaluation
    is_needed = is_after or state.stage.phase in (Phase.OPENING, Phase.CLOSING)
    return stopping.is_finishing(state) and not is_needed


def _advance_stage(state: CoordinatorState) -> bool:
    """Whether it is done."""
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


def _advance_sft(state: CoordinatorState) -> bool:
    assert state.config.sft is not None
    sft.advance(state, state.config.sft)
    if (reason := sft.reason_to_end(state.learning, state.config.sft)) is not None:
        ending.end(state, RunState.FAILED, reason)
        return False
    is_published = state.learning.steps.n_published >= state.stage.n_steps
    return is_published or _is_exhausted(state)


def _advance_training(state: CoordinatorState) -> bool:
    if state.is_clients:
        requests.advance(state)
        return False
    training.advance(state)
    evaluation.advance(state)
    is_exhausted = _is_exhausted(state)
    if is_exhausted and not state.learning.steps.n_consumed:
        ending.end(state, RunState.FAILED, _empty_reason(state))
        return False
    has_enough = is_exhausted or not training.steps_left(state)
    return has_enough and _is_quiet(state.learning, state.rollouts)


def _advance_closing(state: CoordinatorState) -> bool:
    checkpointing.checkpoint_at_end(state)
    if checkpointing.is_saved(state.learning):
        ending.complete(state)
    return False


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
        state.enter(RunState.FINISHING, reason)
    elif state.run_state in (RunState.QUEUED, RunState.STARTING) and (
        state.lease.is_opened or not state.needs_trainer
    ):
        state.enter(RunState.RUNNING)
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
