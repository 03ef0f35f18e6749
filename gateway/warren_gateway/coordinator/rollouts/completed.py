"""Groups that are decided: kept for training, counted as an evaluation, dropped or abandoned.

Invariant: a group leaves `ready` once, to be trained on or because it is too old; what was dropped
no longer counts as admitted, so another group takes its place.
"""

from warren_gateway.coordinator.rollouts import (
    conversations,
    episodes,
    evaluation,
    failed_members,
    failure_limits,
)
from warren_gateway.coordinator.state.coordinator import CoordinatorState
from warren_gateway.coordinator.state.groups import Group
from warren_gateway.coordinator.state.rollouts import RolloutState
from warren_schemas.episode import EpisodePurpose


def take_in(state: CoordinatorState, group: Group) -> str | None:
    """Put away a group that is decided; the reason to end the run, if there is one now."""
    rollouts = state.rollouts
    if group.scores is not None:
        episodes.forget(state, group)
        if not (group.completed or group.own_failures):
            return None  # all had failed when they were recorded
    elif group.purpose is EpisodePurpose.EVALUATE:
        evaluation.absorb(state, group)
    elif failed_members.is_usable(state.config, group):
        rollouts.n_failed_groups_in_a_row = 0
        _of_its_kind(state, group).append(group)
        return None
    else:
        rollouts.n_admitted -= not conversations.is_held_out(state.config, group)
        note_dropped(rollouts, "failed")
        episodes.close(state, group, "failed")
    return failure_limits.note_group(rollouts, state.config.limits, group)


def _of_its_kind(state: CoordinatorState, group: Group) -> list[Group]:
    """Where it waits for the others of its step, or of its evaluation."""
    is_held_out = conversations.is_held_out(state.config, group)
    return state.rollouts.held_out if is_held_out else state.rollouts.ready


def drop_stale(state: CoordinatorState) -> None:
    """Close complete groups that are too old to be trained on."""
    rollouts, version = state.rollouts, state.learning.policy.version_issued
    for group in list(rollouts.ready):
        if state.source.is_stale(group, version, state.config.algorithm.max_staleness):
            rollouts.ready.remove(group)
            rollouts.n_admitted -= 1
            note_dropped(rollouts, "stale")
            state.source.close(state, group, "stale")


def note_dropped(rollouts: RolloutState, reason: str, n: int = 1) -> None:
    """So many complete groups will not be trained on."""
    if n:
        rollouts.dropped_groups[reason] = rollouts.dropped_groups.get(reason, 0) + n


def take_batch(rollouts: RolloutState, n_groups: int) -> list[Group]:
    """The groups of one step, oldest first; they are no longer ready."""
    groups, rollouts.ready[:n_groups] = rollouts.ready[:n_groups], []
    return groups


def abandon(state: CoordinatorState) -> None:
    """The stage, or the run, is over: what is ready or in flight is of no use."""
    state.source.leave_stage(state)
    for group in [group for group in state.rollouts.groups.values() if group.scores is None]:
        episodes.close(state, group, "abandoned")
