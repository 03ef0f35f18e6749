"""Which tasks of a split a config plays: numbers of tasks at the server.

Asked without a key: what is loaded serves the runs of all who may reach the same, so no key is told there.
"""

from collections.abc import Sequence
from typing import Any

from warren.environment import ConfigError
from warren_env_worker.environments.ors.answers import NAMES, NUM_TASKS, SPLITS, TASK_RANGE
from warren_env_worker.environments.ors.server import Asked, OrsServer
from warren_schemas.text.explain import nearest


class TaskList:
    def __init__(self, server: OrsServer, environment: str, split: str) -> None:
        self._server = server
        self._environment = environment
        self._split = split

    async def chosen(self, start: int | None, stop: int | None, ids: Sequence[str]) -> list[int]:
        """Those from `start` to `stop`, by Python's rules for slices; of them, those with these ids."""
        await self._require_split()
        of_split = {"split": self._split}
        asked = Asked("POST", self._server.path("num_tasks"), of_split)
        n_tasks = (await self._server.ask_for(NUM_TASKS, asked)).num_tasks
        numbers = list(range(*slice(start, stop).indices(n_tasks)))
        if not ids or not numbers:
            return numbers
        bounds = {**of_split, "start": numbers[0], "stop": numbers[-1] + 1}
        asked = Asked("POST", self._server.path("task_range"), bounds)
        specs = (await self._server.ask_for(TASK_RANGE, asked)).tasks
        by_id = {_id_of(spec): number for spec, number in zip(specs, numbers, strict=False)}
        missing = [each for each in ids if each not in by_id]
        if missing:
            raise ConfigError(f"ids: no task of {self._split} has the id {', '.join(missing)}")
        return [by_id[each] for each in ids]

    async def _require_split(self) -> None:
        if not self._server.is_deployed:
            await self._require_environment()
        found = await self._server.ask_for(SPLITS, Asked("GET", self._server.path("splits")))
        splits = [split.name for split in found]
        if self._split not in splits:
            raise ConfigError(_missing("split", self._split, splits))

    async def _require_environment(self) -> None:
        names = await self._server.ask_for(NAMES, Asked("GET", "list_environments"))
        if self._environment.lower() not in [name.lower() for name in names]:
            raise ConfigError(_missing("environment", self._environment, names))


def _missing(what: str, name: str, names: Sequence[str]) -> str:
    match = nearest(name, names)
    rest = f"did you mean {match}?" if match else f"it has {', '.join(names) or 'none'}"
    return f"the server has no {what} {name}; {rest}"


def _id_of(spec: dict[str, Any]) -> str | None:
    """Where specs have ids, they stand under one of these names."""
    found = spec.get("id", spec.get("task_id"))
    return None if found is None else str(found)
