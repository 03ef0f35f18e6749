"""The end of a run: completed, failed or cancelled; every worker may let go of what it holds.

Decisions say that a run is to end, and how; what takes in what has come, and `decisions`, end it.
"""

from typing import NamedTuple

from warren_broker.topology import RUNS
from warren_gateway.coordinator.lease import trainer_lease
from warren_gateway.coordinator.notices.outcome import conclude
from warren_gateway.coordinator.rollouts import completed, failure_limits
from warren_gateway.coordinator.state.coordinator import CoordinatorState
from warren_schemas.control import RunEnded
from warren_schemas.envelope import Envelope
from warren_schemas.events import RunOutcome, RunState, StateChanged
from warren_schemas.http import RunResult


class End(NamedTuple):
    """How a run is to end, and why."""

    final: RunState
    reason: str | None = None
    outcome: RunOutcome | None = None


def failed(reason: str | None) -> End | None:
    """The end of a run that can't go on for this reason, where there is one."""
    return None if reason is None else End(RunState.FAILED, reason)


def completed_end(state: CoordinatorState) -> End:
    """Nothing is left to do."""
    outcome, remark = conclude(state)
    return End(RunState.COMPLETED, remark, outcome)


def end(state: CoordinatorState, how: End | None) -> None:
    """Bring the run to its final state; a run that is over, or is not to end, stays as it is."""
    if how is None or state.is_over:
        return
    final, reason, outcome = how
    if reason is not None:
        reason = reason.replace("\0", "")  # workers' words; PostgreSQL takes no text with a NUL
    state.note_state(final, reason)
    completed.abandon(state)
    trainer_lease.give_up(state)
    if state.is_clients:
        state.change.client.ended = f"the model is {final.value}{f': {reason}' if reason else ''}"
    state.change.send(
        RUNS,
        RunEnded(envelope=Envelope(run=state.run), ended_run=state.run, model=state.model),
    )
    state.change.run |= {
        "phase": None,
        "waiting_for": None,
        "ended_s": state.now_s,
        "error": None if outcome else reason,
        "result": result(state, outcome, reason if outcome else None).model_dump(),
    }
    state.emit(StateChanged(state=final, reason=reason, outcome=outcome))


def result(state: CoordinatorState, outcome: RunOutcome | None, remark: str | None) -> RunResult:
    return RunResult(
        outcome=outcome,
        remark=remark,
        reward_before=state.rollouts.reward_before,
        reward_after=state.rollouts.reward_after,
        episodes=state.rollouts.n_episodes,
        updates=state.learning.steps.n_updates,
        tokens=state.rollouts.n_tokens,
        wall_s=state.now_s - (state.started_s or state.created_s),
        max_staleness_seen=state.learning.batches.max_staleness,
        failed_episodes=failure_limits.n_failed(state.rollouts),
        failures=failure_limits.by_kind(state.rollouts),
        dropped_groups=state.rollouts.dropped_groups,
        version=state.learning.policy.version,
        policy_url=state.learning.policy.url,
    )
