"""The end of a run: completed, failed or cancelled; every worker may let go of what it holds."""

from warren_broker.topology import RUNS
from warren_gateway.coordinator import trainer_lease
from warren_gateway.coordinator.notices.outcome import conclude
from warren_gateway.coordinator.rollouts import episodes
from warren_gateway.coordinator.state import Memory
from warren_schemas.control import RunEnded
from warren_schemas.envelope import Envelope
from warren_schemas.events import RunOutcome, RunState, StateChanged
from warren_schemas.http import RunResult


def complete(memory: Memory) -> None:
    """Nothing is left to do."""
    outcome, remark = conclude(memory)
    end(memory, RunState.COMPLETED, remark, outcome)


def end(
    memory: Memory, state: RunState, reason: str | None = None, outcome: RunOutcome | None = None
) -> None:
    """Bring the run to its final state; a run that is over stays as it is."""
    if memory.is_over:
        return
    if reason is not None:
        reason = reason.replace("\0", "")  # workers' words; PostgreSQL takes no text with a NUL
    memory.state = state
    memory.source.leave(memory)
    for group in list(memory.groups.values()):
        episodes.close(memory, group, "abandoned")
    trainer_lease.give_up(memory)
    memory.change.send(
        RUNS,
        RunEnded(envelope=Envelope(run=memory.run), ended_run=memory.run, model=memory.model),
    )
    memory.change.run |= {
        "state": state.value,
        "phase": None,
        "waiting_for": None,
        "ended_s": memory.now_s,
        "error": None if outcome else reason,
        "result": result(memory, outcome, reason if outcome else None).model_dump(),
    }
    memory.emit(StateChanged(state=state, reason=reason, outcome=outcome))


def result(memory: Memory, outcome: RunOutcome | None, remark: str | None) -> RunResult:
    progress = memory.progress
    return RunResult(
        outcome=outcome,
        remark=remark,
        reward_before=progress.reward_before,
        reward_after=progress.reward_after,
        episodes=progress.n_episodes,
        updates=progress.n_updates,
        tokens=progress.n_tokens,
        wall_s=memory.now_s - (memory.started_s or memory.created_s),
        max_staleness_seen=progress.max_staleness_seen,
        failed_episodes=progress.n_failed_episodes,
        version=memory.policy_version,
        policy_url=memory.policy_url,
    )
