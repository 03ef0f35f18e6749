"""Which task a new group plays: environments by their weights, tasks in order.

Invariant: an index is taken once, but for evaluations, which begin again with the first task, and
for tasks that were in flight at the checkpoint that a run resumes from, which are played again.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from warren_gateway.coordinator.rollouts.curricula import choice
from warren_gateway.coordinator.rollouts.curricula.choice import Chosen
from warren_gateway.coordinator.state.coordinator import CoordinatorState
from warren_gateway.coordinator.state.rollouts import RolloutState
from warren_schemas.config import EnvironmentConfig
from warren_schemas.episode import EpisodePurpose


class Task(NamedTuple):
    purpose: str
    environment: int
    task_index: int


def next_environment(
    rollouts: RolloutState, environments: Sequence[EnvironmentConfig], purpose: EpisodePurpose
) -> int:
    """That of a task to be played again, or else the one that is furthest behind its share."""
    if (again := _again(rollouts, purpose)) is not None:
        return again.environment
    cursors = rollouts.task_cursors

    def served(i: int) -> float:
        return (cursors.get(_cursor(purpose, i), 0) + 1) / environments[i].weight

    return min(range(len(environments)), key=served)


def take(rollouts: RolloutState, purpose: EpisodePurpose, environment: int) -> int:
    """The index of the next task of what `next_environment` said."""
    if (again := _again(rollouts, purpose)) is not None:
        rollouts.tasks_again.remove(again)
        return again.task_index
    return take_new(rollouts, purpose, environment)


def choose(state: CoordinatorState, purpose: EpisodePurpose, environment: int) -> Chosen:
    """The next task of what `next_environment` said, by the environment's curriculum if it has one."""
    is_again = _again(state.rollouts, purpose) is not None
    number = take(state.rollouts, purpose, environment)
    return choice.chosen(state, purpose, environment, number, is_again=is_again)


def take_new(rollouts: RolloutState, purpose: EpisodePurpose, environment: int) -> int:
    """The index of this environment's next task that none of `tasks_again` is."""
    cursors, key = rollouts.task_cursors, _cursor(purpose, environment)
    index = cursors.get(key, 0)
    cursors[key] = index + 1
    return index


def n_taken(rollouts: RolloutState, purpose: EpisodePurpose, environment: int) -> int:
    """Since the beginning, or since they were begun again."""
    return rollouts.task_cursors.get(_cursor(purpose, environment), 0)


def rewind(rollouts: RolloutState, purpose: EpisodePurpose, environments: Iterable[int]) -> None:
    """Begin again with the first task: every evaluation sees the same tasks."""
    for environment in environments:
        rollouts.task_cursors.pop(_cursor(purpose, environment), None)


def cursors_without(
    rollouts: RolloutState, purpose: EpisodePurpose, environment: int
) -> dict[str, int]:
    """Those of all others."""
    left_out = _cursor(purpose, environment)
    return {key: index for key, index in rollouts.task_cursors.items() if key != left_out}


def resume(
    rollouts: RolloutState,
    next_group: int,
    cursors: Mapping[str, int],
    again: Sequence[tuple[str, int, int]],
) -> None:
    """Go on where another run stood at its checkpoint."""
    rollouts.next_group = next_group
    rollouts.task_cursors = dict(cursors)
    rollouts.tasks_again = list(again)


def _cursor(purpose: EpisodePurpose, environment: int) -> str:
    return f"{purpose}/{environment}"


def _again(rollouts: RolloutState, purpose: EpisodePurpose) -> Task | None:
    """A task that was in flight when the checkpoint was made that this run resumes from."""
    waiting = (Task(*task) for task in rollouts.tasks_again)
    return next((task for task in waiting if task.purpose == purpose.value), None)
