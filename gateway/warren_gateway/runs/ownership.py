"""Whose env workers play an environment of a run: the deployment's, or the run's owner's own.

The two never stand in for each other: they have queues of their own, and a capacity of their own.
"""

from collections.abc import Collection

from warren_broker.topology import WorkQueue, compare, interact, owned
from warren_schemas.config import EnvironmentConfig, TrainConfig


def played_by(environment: EnvironmentConfig, owner: str) -> str | None:
    """The owner, if only his own env workers play it; None: those of the deployment."""
    return owner if environment.workers == "own" else None


def interact_queues(config: TrainConfig, owner: str) -> dict[str, WorkQueue]:
    """Where the run's episodes start, by environment."""
    return {
        environment.name: interact(environment.name, played_by(environment, owner))
        for environment in config.environments
    }


def compare_queues(
    config: TrainConfig, owner: str, comparing: Collection[str]
) -> dict[str, WorkQueue]:
    """Where its groups are compared, by environment; those whose groups are not have none. `comparing` are the environments
    that are known to do it whatever the config says."""
    return {
        environment.name: compare(environment.name, played_by(environment, owner))
        for environment in config.environments
        if environment.group_parts or environment.name in comparing
    }


def capacity_key(environment: str, owner: str | None) -> str:
    """What these workers have for this environment is counted under this name."""
    return f"{owned(owner)}{environment}" if owner else environment
