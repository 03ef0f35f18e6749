"""What is done once per process and not per episode: configs checked, tasks loaded."""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

import orjson

from warren.environment import Env
from warren_env_worker.host.config import ConfigSchema
from warren_env_worker.host.protocol import Config, Start
from warren_env_worker.host.refusal import config_refusal, one_line
from warren_env_worker.reach.reach import Reach, acting
from warren_env_worker.reach.secrets import PREFIX, remember

MAX_KEPT = 64
"""Configs and task lists that are kept; the oldest goes first."""

_MISFITS = (TypeError, ValueError, LookupError, FileNotFoundError, PermissionError)
"""What a constructor or `tasks` raises for a config that won't work the next time either."""

_Load = tuple[bytes, str, Reach]

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")


class _Loaded(NamedTuple):
    tasks: Sequence[Any] | None
    n_loads: int
    """So many there had been with this one."""


class TaskCache:
    """Instances and tasks of one class. All methods run user code and raise `Refusal`."""

    def __init__(self, environment: type[Env[Any]]) -> None:
        self._environment = environment
        self._schema = ConfigSchema(environment)
        self._arguments: dict[bytes, Config] = {}
        self._loaded: dict[_Load, _Loaded] = {}
        self.n_loads = 0

    def make(self, start: Start) -> Env[Any]:
        """A fresh instance, which may reach what this episode may."""
        secrets, keys = start.sealed.opened()
        remember({variable.removeprefix(PREFIX): key for variable, key in keys.items()} | secrets)
        return self._made(start, start.reach.with_values(keys))

    def _made(self, start: Start, reach: Reach) -> Env[Any]:
        key = _key(start.config)
        if key not in self._arguments:
            _keep(self._arguments, key, self._schema.check(start.config))
        try:
            with acting(reach):
                return self._environment(**self._arguments[key])
        except _MISFITS as error:
            raise config_refusal(f"the constructor refused: {one_line(error)}") from error

    def has_loaded(self, start: Start) -> bool:
        return _load(start) in self._loaded

    def load(self, start: Start) -> None:
        """Load the tasks of a split; may take long. No secret is told: others are forked from here."""
        loader = self._made(start, start.reach)
        try:
            with acting(start.reach):
                tasks: Sequence[Any] | None = loader.tasks(start.split)
        except _MISFITS as error:
            raise config_refusal(f"no tasks for {start.split!r}: {one_line(error)}") from error
        if tasks is not None and len(tasks) == 0:
            raise config_refusal(f"the split {start.split!r} has no tasks")
        self.n_loads += 1
        _keep(self._loaded, _load(start), _Loaded(tasks, self.n_loads))

    def loaded_at(self, start: Start) -> int:
        """A process that was forked after so many loads has the tasks of this episode.

        Of tasks that are kept no more, any process will do: it loads what it lacks.
        """
        loaded = self._loaded.get(_load(start))
        return 0 if loaded is None else loaded.n_loads

    def task(self, start: Start) -> object:
        """The task of this episode; None where the environment makes its own."""
        tasks = self._loaded[_load(start)].tasks
        if tasks is None:
            return None
        return tasks[start.order.position(start.index, len(tasks))]


def _load(start: Start) -> _Load:
    """Tasks are shared by those who may reach the same."""
    return _key(start.config), start.split, start.reach


def _key(config: Config) -> bytes:
    return orjson.dumps(config, option=orjson.OPT_SORT_KEYS)


def _keep(kept: dict[KeyT, ValueT], key: KeyT, value: ValueT) -> None:
    kept[key] = value
    if len(kept) > MAX_KEPT:
        kept.pop(next(iter(kept)))
