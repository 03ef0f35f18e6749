"""Failure limits: the first failure is reported at once, and a run whose groups all fail ends.

A run goes on after failures. It ends once `limits.failed_groups` groups in a row came to nothing.
A call that hangs takes its whole time limit, and each member is tried several times; so, as long as
no episode of the run has completed, every failure of an environment counts as a member that failed,
whichever attempt it was. Workers that are missing or die are waited for and count for nothing here.
"""

from collections import Counter

from warren_gateway.coordinator.state.coordinator import CoordinatorState
from warren_gateway.coordinator.state.groups import Group
from warren_gateway.coordinator.state.rollouts import RolloutState
from warren_schemas.config import LimitsConfig, TrainConfig
from warren_schemas.episode import Failed, FailureKind
from warren_schemas.events import WarningRaised

_OF_THE_CONFIG = (
    FailureKind.UNKNOWN_ENVIRONMENT,
    FailureKind.ENVIRONMENT_CONFIG,
    FailureKind.IMAGES_UNSUPPORTED,
)
OF_ENVIRONMENTS = (
    FailureKind.ENVIRONMENT_ERROR,
    FailureKind.ENVIRONMENT_TIMEOUT,
    FailureKind.ENVIRONMENT_CRASHED,
    FailureKind.INVALID_REWARD,
    FailureKind.NO_REWARD,
    FailureKind.REWARD_FAILED,
)


def note_failures(state: CoordinatorState, environment: int, failure: Failed, n: int = 1) -> None:
    """So many attempts have failed in this way."""
    if not state.rollouts.is_failure_told:
        state.rollouts.is_failure_told = True
        _tell_first(state, environment, failure)
    if failure.kind in OF_ENVIRONMENTS and not _has_completed(state.rollouts):
        state.rollouts.n_failures_at_first += n
        state.rollouts.last_failure_at_first = failure.reason


def note_group(rollouts: RolloutState, limits: LimitsConfig, group: Group) -> str | None:
    """A group is decided; the reason to end the run if this was one too many that came to nothing."""
    if not group.failures or group.completed:
        rollouts.n_failed_groups_in_a_row = 0
        return None
    rollouts.n_failed_groups_in_a_row += 1
    last = next(reversed(group.failures.values()))
    is_last = rollouts.n_failed_groups_in_a_row >= limits.failed_groups
    return _reason(last.reason) if is_last or _is_hopeless(last) else None


def note_attempts(rollouts: RolloutState, failure: Failed, n: int) -> None:
    """So many attempts that failed in this way count for good."""
    if n:
        rollouts.failures[failure.kind] = rollouts.failures.get(failure.kind, 0) + n


def by_kind(rollouts: RolloutState) -> dict[str, int]:
    """Episodes of the run that failed so far, each attempt by itself."""
    of_open_groups = (
        f.kind for group in rollouts.groups.values() for f in group.own_failures.values()
    )
    return dict(Counter(rollouts.failures) + Counter(of_open_groups))


def n_failed(rollouts: RolloutState) -> int:
    """The same, all kinds together."""
    return sum(by_kind(rollouts).values())


def reason_to_end(rollouts: RolloutState, config: TrainConfig) -> str | None:
    """Why to end a run of which no episode has completed."""
    most = config.limits.failed_groups * config.algorithm.group_size
    if rollouts.n_failures_at_first < most or _has_completed(rollouts):
        return None
    return _reason(rollouts.last_failure_at_first)


def _has_completed(rollouts: RolloutState) -> bool:
    """Whether any episode of the run has; those of open groups are not in the totals yet."""
    return rollouts.n_episodes > 0 or any(g.ended for g in rollouts.groups.values())


def _tell_first(state: CoordinatorState, environment: int, failure: Failed) -> None:
    name = state.config.environment_of(environment).name
    message = (
        f"an episode of {name} failed: {failure.reason}; the run goes on, and ends if"
        f" {state.config.limits.failed_groups} groups in a row come to nothing"
    )
    state.emit(WarningRaised(message=message))


def _is_hopeless(failure: Failed) -> bool:
    """A failure that every episode of the run would meet: the config is wrong, or the model does not fit."""
    return not failure.retryable and failure.kind in _OF_THE_CONFIG


def _reason(failure: str) -> str:
    return f"episodes fail: {failure}"
