"""What became of the members of a group; of evaluations, all that their results are computed from."""

from typing import Any

from warren_gateway.coordinator.rollouts import failure_limits
from warren_gateway.coordinator.state.coordinator import CoordinatorState
from warren_gateway.coordinator.state.groups import Group
from warren_schemas.episode import Completed, EpisodePurpose
from warren_schemas.events import Phase


def outcomes(state: CoordinatorState, group: Group, fate: str) -> list[dict[str, Any]]:
    """What became of each member, in which step, and which ending of it counted.

    A member that failed, or never ended, has no part in what the others were good for.
    """
    step = _step(state, fate)
    fated = {"fate": fate} if step is None else {"fate": fate, "step": step}
    return [
        _fated(group, member, fated) | _outcome(group, member) for member in range(group.n_members)
    ]


def count(state: CoordinatorState, group: Group) -> None:
    """Only once it is closed: the endings of open groups are read again after a takeover."""
    rollouts, used = state.rollouts, state.change.used
    used.sampling_gpu_s += group.use.sampling_gpu_s
    used.n_tokens_sampled += group.use.n_sampled
    used.n_episodes += len(group.completed)
    rollouts.n_episodes += len(group.completed)
    for failure in group.failures.values():
        failure_limits.note_attempts(rollouts, failure, 1)
    if group.purpose is not EpisodePurpose.DEMONSTRATE:
        rollouts.n_tokens += sum(item.transcript.n_sampled for item, _ in group.completed)


def _fated(group: Group, member: int, fated: dict[str, Any]) -> dict[str, Any]:
    if member in group.failures:
        return {"fate": "failed"}
    is_used = fated["fate"] in ("trained", "evaluated")
    return {"fate": "abandoned"} if is_used and member not in group.ended else fated


def _step(state: CoordinatorState, fate: str) -> int | None:
    """The step that a group is part of when it is closed; None for a group that is part of none."""
    is_held_out = fate == "evaluated" and state.stage.phase is Phase.SFT
    if fate == "trained" or is_held_out:
        return state.learning.steps.n_consumed + 1
    evaluation = state.rollouts.evaluation
    return evaluation.step if fate == "evaluated" and evaluation is not None else None


def _outcome(group: Group, member: int) -> dict[str, Any]:
    outcome: dict[str, Any] = {}
    ended, failure = group.ended.get(member), group.failures.get(member)
    if ended is not None and isinstance(ended.outcome, Completed):
        outcome["reward"] = ended.outcome.reward
        if group.purpose is EpisodePurpose.EVALUATE:
            outcome["metrics"] = ended.outcome.metrics
    elif failure is not None:
        outcome |= {"failure": failure.kind.value, "reason": failure.reason}
    if (position := group.counted.get(member)) is not None:
        outcome["position"] = int(position)
    if group.provenance.task_key is not None and group.scores is not None:
        outcome |= {"task": group.provenance.task_key, "recorded": group.scores.episode(member)}
    return outcome
