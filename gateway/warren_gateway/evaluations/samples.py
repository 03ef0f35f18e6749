"""The episodes of an evaluation as samples of tasks.

Invariant: tasks of one split that call themselves the same stay two where an evaluation holds both: each has its number in
its key and in its name. One that holds a single one of them can't know of the others, and has it under the id alone.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from warren_gateway.evaluations.task_keys import key_of_task
from warren_gateway.store.tables import GroupRow
from warren_schemas.config import EnvironmentConfig, TrainConfig
from warren_schemas.episode import default_task_id

INCOMPLETE = "incomplete"
"""The fate of members of a recorded group of which another one never ended."""


@dataclass(frozen=True, slots=True)
class Sample:
    """An episode that counts: it has a reward, or it failed."""

    task: str
    """Its key."""
    task_id: str
    environment: int
    category: str | None
    reward: float | None = None
    metrics: dict[str, float] = field(default_factory=dict[str, float])
    failure: str | None = None


def samples_of(groups: Iterable[GroupRow], config: TrainConfig) -> Iterator[Sample]:
    """Of groups that are counted; members that were given up say nothing."""
    whole = list(filter(is_whole, groups))
    repeated = _repeated_ids(whole)
    for group in whole:
        own, is_repeated = task_key(group, config), _named(group) in repeated
        for outcome in group.outcomes or ():
            if outcome["fate"] in ("evaluated", "failed"):
                task = outcome.get("task", own)
                told = f"{task}/{group.task_number}" if is_repeated else task
                yield _sample(group, config, told, outcome, is_repeated=is_repeated)


def _repeated_ids(groups: Sequence[GroupRow]) -> set[tuple[int, str | None]]:
    """By environment, those that tasks with several numbers have."""
    numbers: dict[tuple[int, str | None], set[int]] = defaultdict(set)
    for group in groups:
        if group.task_id is not None and group.task_number is not None:
            numbers[_named(group)].add(group.task_number)
    return {named for named, having in numbers.items() if len(having) > 1}


def _named(group: GroupRow) -> tuple[int, str | None]:
    return group.environment, group.task_id


def is_whole(group: GroupRow) -> bool:
    """Whether it counts: of what is recorded, groups that lack a member do not."""
    return all(outcome["fate"] != INCOMPLETE for outcome in group.outcomes or ())


def task_key(group: GroupRow, config: TrainConfig) -> str:
    """Of what the run played itself: what was recorded brings its own."""
    environment = config.environments[group.environment]
    return key_of_task(
        environment.name,
        environment.workers,
        environment.config,
        _split(environment),
        dataset=environment.dataset,
        told_id=group.task_id,
        number=group.task_number,
        made_from=(config.seed, group.environment, group.task_index),
        level=group.level,
    )


def _sample(
    group: GroupRow,
    config: TrainConfig,
    task: str,
    outcome: dict[str, Any],
    *,
    is_repeated: bool,
) -> Sample:
    unnamed = _unnamed(group, config)
    told = f"{group.task_id} ({unnamed})" if is_repeated else group.task_id
    return Sample(
        task=task,
        task_id=told or unnamed,
        environment=group.environment,
        category=group.category,
        reward=outcome.get("reward"),
        metrics=outcome.get("metrics", {}),
        failure=outcome.get("failure"),
    )


def _unnamed(group: GroupRow, config: TrainConfig) -> str:
    split = _split(config.environments[group.environment])
    return default_task_id(split, group.task_index, group.task_number)


def _split(environment: EnvironmentConfig) -> str:
    return environment.evaluation_split or environment.split
