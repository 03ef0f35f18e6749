"""Which tasks of a split a config plays, by their numbers at the server, and what their specs call them.

Asked without a key: what is loaded serves the runs of all who may reach the same, so no key is told there.
"""

from collections import Counter
from collections.abc import Sequence

from warren.environment import ConfigError
from warren_env_worker.environments.ors.answers import NAMES, NUM_TASKS, SPLITS, TASK_RANGE
from warren_env_worker.environments.ors.server import Asked, OrsServer
from warren_schemas.datasets.row_ids import row_id
from warren_schemas.text.explain import nearest


class TaskList:
    def __init__(self, server: OrsServer, environment: str, split: str) -> None:
        self._server = server
        self._environment = environment
        self._split = split

    async def numbers(self, start: int | None, stop: int | None) -> list[int]:
        """Those from `start` to `stop`, by Python's rules for slices."""
        await self._require_split()
        asked = Asked("POST", self._server.path("num_tasks"), {"split": self._split})
        n_tasks = (await self._server.ask_for(NUM_TASKS, asked)).num_tasks
        return list(range(*slice(start, stop).indices(n_tasks)))

    async def ids(self, numbers: Sequence[int]) -> dict[int, str]:
        """Of these tasks, which follow each other, those that have one."""
        if not numbers:
            return {}
        bounds = {"split": self._split, "start": numbers[0], "stop": numbers[-1] + 1}
        asked = Asked("POST", self._server.path("task_range"), bounds)
        told = await self._server.ask_for(TASK_RANGE, asked)
        specs = () if told is None else told.tasks
        found = {number: row_id(spec) for spec, number in zip(specs, numbers, strict=False)}
        return {number: told for number, told in found.items() if told is not None}

    def having(self, ids: Sequence[str], known: dict[int, str]) -> list[int]:
        """The tasks with these ids, in their order. Raises `ConfigError`."""
        n_having = Counter(known.values())
        missing = [each for each in ids if each not in n_having]
        if missing:
            raise ConfigError(f"ids: no task of {self._split} has the id {', '.join(missing)}")
        repeated = [each for each in ids if n_having[each] > 1]
        if repeated:
            raise ConfigError(
                f"ids: {n_having[repeated[0]]} tasks of {self._split} have the id {repeated[0]}; choose by start and stop"
            )
        by_id = {told: number for number, told in known.items()}
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
