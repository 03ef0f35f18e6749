"""The decisions of a coordinator: what to do about what has come in.

Pure: a function of the state, which holds the time and all that was seen; everything that a decision does is in
the state and in `state.change`, but for the ids of new groups and messages. What `decide`
calls says that the run is to end, and how; `decide` ends it, as does what takes in what has come.
"""

from warren_gateway.coordinator import ending, stages, stopping, waiting
from warren_gateway.coordinator.clients import requests
from warren_gateway.coordinator.ending import End, failed
from warren_gateway.coordinator.lease import idle_trainer, loading, moving, trainer_lease
from warren_gateway.coordinator.replaying.source import Recorded
from warren_gateway.coordinator.rollouts import (
    completed,
    conversations,
    episodes,
    failure_limits,
)
from warren_gateway.coordinator.rollouts.trainable import other_tokenizer
from warren_gateway.coordinator.state.coordinator import CoordinatorState
from warren_gateway.coordinator.state.recorded import Message
from warren_gateway.coordinator.waiting import Alive
from warren_gateway.position import Position
from warren_schemas.control import WorkerRole
from warren_schemas.episode import EpisodeEnded
from warren_schemas.events import Phase, RunState
from warren_schemas.training import is_full


def absorb_ending(state: CoordinatorState, item: EpisodeEnded, position: Position) -> None:
    """An episode has ended."""
    if state.is_over:
        return
    group = episodes.absorb(state, item, position)
    is_own = item.spec.policy.model == state.model
    reason = _foreign(state, item) if is_own else None
    if reason is None and group is not None:
        reason = completed.take_in(state, group)
    ending.end(state, failed(reason))


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
    if not state.is_over:
        ending.end(state, _go_on(state, alive))


def _go_on(state: CoordinatorState, alive: Alive) -> End | None:
    """Everything but the end of the run: how it is to end, if it is."""
    if isinstance(state.source, Recorded):
        state.source.go_on(state)
    without_worker = waiting.unhosted(state, alive)
    if end := _reason_to_end(state) or stopping.carry_out(state):
        return end
    episodes.begin_decision(state.rollouts, stopping.unhosted(state, without_worker))
    stopping.note_opened(state)
    if end := _expire(state, alive):
        return end
    if isinstance(state.source, Recorded) and not stopping.is_finishing(state):
        state.source.score(state)
    if not stopping.is_paused(state):
        _look_at_workers(state, alive)
    return stages.go_on(state)


def _look_at_workers(state: CoordinatorState, alive: Alive) -> None:
    """Say what the run waits for, and give its trainer back where that is of no use to it."""
    loading.note_loading(state, alive(WorkerRole.TRAINER))
    waiting.report(state, alive)
    idle_trainer.release_if_idle(state)
    moving.move_if_drained(state, alive, is_still=stopping.is_still(state))


def stand_still(state: CoordinatorState, alive: Alive) -> None:
    """Nothing but what can be decided without the rows of its data sets: that it waits for them, or ends."""
    if end := _reason_to_end(state):
        ending.end(state, end)
    elif not stopping.is_paused(state):
        waiting.report(state, alive)


def _reason_to_end(state: CoordinatorState) -> End | None:
    if state.observed.is_cancel_requested or stopping.is_for_nobody(state):
        return End(RunState.CANCELLED, stopping.who_cancels(state))
    return failed(
        waiting.given_up(state)
        or trainer_lease.reason_to_end(state.lease, state.learning.ops.answered)
        or failure_limits.reason_to_end(state.rollouts, state.config)
        or state.source.failure(state)
        or state.alarms.stop_reason
    )


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


def _expire(state: CoordinatorState, alive: Alive) -> End | None:
    """The end of the run closes every group, also those of this round that were not looked at."""
    for group in episodes.expire(state, is_sampled=waiting.is_sampled(state, alive)):
        if reason := completed.take_in(state, group):
            return failed(reason)
    return None
