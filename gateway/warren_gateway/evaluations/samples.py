"""The episodes of an evaluation as samples of tasks.

Invariant: a task has one key in every evaluation, so samples of it are known as such where a split is
played twice, and two evaluations can be compared task by task. The key is of the environment's name and config,
the data set's exact version if there is one, the split, and the task's number in the data; of an environment that makes
its own tasks, of what it makes them from: the run's seed, the place among its environments and the index.
"""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import orjson

from warren_gateway.store.tables import GroupRow
from warren_schemas.config import EnvironmentConfig, TrainConfig


@dataclass(frozen=True, slots=True)
class Sample:
    """An episode that counts: it has a reward, or it failed."""

    task: str
    environment: int
    category: str | None
    reward: float | None = None
    metrics: dict[str, float] = field(default_factory=dict[str, float])
    failure: str | None = None


def samples_of(groups: Iterable[GroupRow], config: TrainConfig) -> Iterator[Sample]:
    """Of groups that are counted; members that were given up say nothing."""
    for group in groups:
        task = task_key(group, config)
        for outcome in group.outcomes or ():
            if outcome["fate"] in ("evaluated", "failed"):
                yield _sample(group, task, outcome)


def task_key(group: GroupRow, config: TrainConfig) -> str:
    environment = config.environments[group.environment]
    known: list[object] = [
        environment.name,
        environment.workers,
        environment.config,
        _split(environment),
    ]
    if environment.dataset is not None:
        known.append(environment.dataset)
    if group.task_number is not None:
        known.append(group.task_number)
    else:
        known += [config.seed, group.environment, group.task_index]
    text = orjson.dumps(known, option=orjson.OPT_SORT_KEYS)
    return hashlib.blake2b(text, digest_size=8).hexdigest()


def _split(environment: EnvironmentConfig) -> str:
    return environment.evaluation_split or environment.split


def _sample(group: GroupRow, task: str, outcome: dict[str, Any]) -> Sample:
    return Sample(
        task=task,
        environment=group.environment,
        category=group.category,
        reward=outcome.get("reward"),
        metrics=outcome.get("metrics", {}),
        failure=outcome.get("failure"),
    )
