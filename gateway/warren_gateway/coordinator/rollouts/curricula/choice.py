"""Which level or task a new group plays, and what a group that is closed tells.

Invariants: a group tells once, in the transaction that closes it; so whoever takes the run over knows what its
predecessor knew, and draws what that one would have drawn. A draw follows from the run's seed, the environment, the
number of the draw and the estimates. What was drawn is stored with the group that plays it.
"""

from collections.abc import Mapping
from typing import NamedTuple

from warren_gateway.coordinator.rollouts.curricula import learnability
from warren_gateway.coordinator.state.coordinator import CoordinatorState
from warren_gateway.coordinator.state.curricula import Estimates
from warren_gateway.coordinator.state.groups import Group
from warren_gateway.coordinator.state.rollouts import RolloutState
from warren_schemas.config import Curriculum
from warren_schemas.episode import EpisodePurpose

_DIGITS = 6
"""Of estimates, as they are stored."""


class Chosen(NamedTuple):
    """A task by its index in the run, and of which level it is to be."""

    task_index: int
    level: int | None = None


def chosen(
    state: CoordinatorState,
    purpose: EpisodePurpose,
    environment: int,
    number: int,
    *,
    is_again: bool,
) -> Chosen:
    """What the draw of this number gives; a task that `is_again` played is that of the number."""
    curriculum = state.config.environment_of(environment).curriculum
    if curriculum is None:
        return Chosen(number)
    if purpose is not EpisodePurpose.TRAIN:
        return Chosen(number, number % curriculum.n if curriculum.over == "levels" else None)
    if curriculum.over == "tasks" and is_again:
        return Chosen(number)
    drawn = _drawn(state, environment, curriculum, number)
    return Chosen(number, drawn) if curriculum.over == "levels" else Chosen(drawn)


def note_closed_group(state: CoordinatorState, group: Group) -> None:
    """What a group that is closed has told."""
    curriculum = state.config.environment_of(group.environment).curriculum
    if curriculum is None or group.purpose is not EpisodePurpose.TRAIN:
        return
    place = group.task.level if curriculum.over == "levels" else group.task.index
    rewards = [outcome.reward for _, outcome in group.completed]
    if not rewards or place is None or place >= curriculum.n:
        return
    known = estimates(state.rollouts, group.environment, curriculum)
    kept = 0.5 ** (1.0 / curriculum.half_life_groups)
    n_solved = sum(reward >= curriculum.solved_at for reward in rewards)
    known.solved[place] = round(known.solved[place] * kept + n_solved, _DIGITS)
    known.played[place] = round(known.played[place] * kept + len(rewards), _DIGITS)


def estimates(rollouts: RolloutState, environment: int, curriculum: Curriculum) -> Estimates:
    """Those of this environment; they begin anew where the run that was resumed had another number of them."""
    key = str(environment)
    known = rollouts.curricula.get(key)
    if known is None or len(known.played) != curriculum.n:
        known = rollouts.curricula[key] = Estimates.none(curriculum.n)
    return known


def resume(rollouts: RolloutState, curricula: Mapping[str, Estimates]) -> None:
    """Go on with what a checkpoint holds of them."""
    rollouts.curricula = dict(curricula)


def _drawn(state: CoordinatorState, environment: int, curriculum: Curriculum, number: int) -> int:
    known = estimates(state.rollouts, environment, curriculum)
    rates = learnability.solve_rates(known.solved, known.played)
    chances = learnability.probabilities(rates, curriculum.uniform, curriculum.score_temperature)
    return learnability.drawn(chances, learnability.point(state.config.seed, environment, number))
