"""Statistics of every environment of a run: of one step, and of all steps so far.

Invariant: the sums are stored with every change, so they go on where another coordinator left off.
"""

from collections.abc import Sequence

from warren_gateway.coordinator.rollouts.by_environment import (
    add,
    environment_sums,
    environment_tags,
    total_tags,
)
from warren_gateway.coordinator.state.coordinator import CoordinatorState
from warren_gateway.coordinator.state.groups import Group


def environment_metrics(state: CoordinatorState, groups: Sequence[Group]) -> dict[str, float]:
    """The tags of a step, which is counted in the run's totals."""
    by_environment = environment_sums(groups)
    tags = environment_tags(state.config.environments, by_environment)
    totals = state.learning.batches.environment_totals
    add(totals, by_environment)
    for name in by_environment:
        tags |= total_tags(name, totals[name])
    return tags
