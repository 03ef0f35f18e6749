"""What a step reports of its run's curricula.

Invariant: nothing where there is no curriculum. Estimates are those before the step's groups were counted.
"""

from collections.abc import Sequence
from statistics import fmean

from warren_gateway.coordinator.rollouts.curricula import learnability
from warren_gateway.coordinator.rollouts.curricula.choice import estimates
from warren_gateway.coordinator.state.coordinator import CoordinatorState
from warren_gateway.coordinator.state.groups import Group
from warren_schemas.config import Curriculum

MOST_LEVELS_SHOWN = 32


def curriculum_metrics(state: CoordinatorState, groups: Sequence[Group]) -> dict[str, float]:
    """By environment, where the run has several."""
    environments = state.config.environments
    found: dict[str, float] = {}
    for number, environment in enumerate(environments):
        if environment.curriculum is None:
            continue
        before = "curriculum" if len(environments) == 1 else f"curriculum/env/{environment.name}"
        own = [group for group in groups if group.environment == number]
        tags = _tags(state, number, environment.curriculum, own)
        found |= {f"{before}/{name}": value for name, value in tags.items()}
    return found


def _tags(
    state: CoordinatorState, environment: int, curriculum: Curriculum, groups: Sequence[Group]
) -> dict[str, float]:
    known = estimates(state.rollouts, environment, curriculum)
    rates = learnability.solve_rates(known.solved, known.played)
    found = {
        "solve_rate": fmean(rates),
        "learnability": fmean(learnability.learnability(rates)),
        "tried_frac": fmean(n > 0 for n in known.played),
    }
    levels = [group.task.level for group in groups if group.task.level is not None]
    if levels:
        found["level"] = fmean(levels)
    if curriculum.over == "levels" and curriculum.n <= MOST_LEVELS_SHOWN:
        chances = learnability.probabilities(
            rates, curriculum.uniform, curriculum.score_temperature
        )
        found |= {f"solve_rate/{level}": rate for level, rate in enumerate(rates)}
        found |= {f"probability/{level}": chance for level, chance in enumerate(chances)}
    return found
