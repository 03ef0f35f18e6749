"""Which tasks of a split a run plays, where its config names them by their ids."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from warren.environment import ConfigError, Env
from warren_schemas.episode import default_task_id
from warren_schemas.text.explain import nearest

MAX_TOLD = 100_000
"""So many ids are told at once."""


def chosen(
    environment: Env[Any], tasks: Sequence[Any] | None, split: str, ids: Sequence[str]
) -> Sequence[int] | None:
    """Their numbers, in the order of the ids, or those of all tasks where no id is given; None where the environment
    makes its own. Raises `ConfigError`."""
    if tasks is None:
        if ids:
            raise ConfigError(
                "task_ids: the environment makes its own tasks, and has none to choose"
            )
        return None
    if not ids:
        return range(len(tasks))
    told = [_id_of(environment, task, split, n) for n, task in enumerate(tasks)]
    numbers, n_having = {each: n for n, each in enumerate(told)}, Counter(told)
    for each in ids:
        if n_having[each] > 1:
            raise ConfigError(
                f"task_ids: {n_having[each]} tasks have the id {each!r}, so it names none of them; give each its own"
            )
        if each not in numbers:
            raise ConfigError(f"task_ids: no task has the id {each!r}; {_other(each, numbers)}")
    return [numbers[each] for each in ids]


def told_ids(
    environment: Env[Any], tasks: Sequence[Any] | None, used: Sequence[int] | None
) -> Sequence[str | None] | None:
    """What those tasks of the list call themselves, in its order; None where there is no list, or too long a one."""
    if tasks is None or used is None or len(used) > MAX_TOLD:
        return None
    return [environment.id_of(tasks[number]) for number in used]


def _id_of(environment: Env[Any], task: object, split: str, number: int) -> str:
    told = environment.id_of(task)
    return default_task_id(split, number, number) if told is None else told


def _other(name: str, names: dict[str, int]) -> str:
    match = nearest(name, list(names))
    first = ", ".join(list(names)[:3])
    return f"did you mean {match}?" if match else f"the {len(names)} begin with {first}"
