"""What is known of a recorded group as a whole, to filter it by and to find its environment."""

import numpy as np

from warren_gateway.coordinator.state.coordinator import CoordinatorState
from warren_gateway.coordinator.state.groups import Group
from warren_schemas.config import RecordedFacts


def environment_of(state: CoordinatorState, group: Group) -> int:
    """Which of the replay's environments the group is of, whose rules for groups count: the one that stands
    where it stood in the run, or else the first of its name."""
    names = [environment.name for environment in state.config.environments]
    recorded = next((item.spec.environment for item in group.ended.values()), "")
    if names[group.environment : group.environment + 1] == [recorded]:
        return group.environment
    return names.index(recorded) if recorded in names else 0


def facts_of(group: Group) -> RecordedFacts:
    """Of a group as a whole; its reward is the mean of its episodes."""
    items, rewards = list(group.ended.values()), [o.reward for _, o in group.completed]
    return RecordedFacts(
        reward=float(np.mean(rewards)) if rewards else None,
        environment=items[0].spec.environment if items else "",
        category=group.task.category,
        versions=(
            group.oldest_version,
            max((item.transcript.newest_version for item in items), default=-1),
        ),
        fates=frozenset(group.provenance.fates),
        ended_s=max((item.ended_s for item in items), default=0.0),
    )
