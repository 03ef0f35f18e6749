"""What is done once per process and not per episode: configs checked, tasks loaded.

Invariant: what is kept is bounded, in number and for tasks in bytes; what was used last stays. One list
of tasks is kept however large it is.
"""

import inspect
from collections.abc import Awaitable, Coroutine, Generator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import Any, NamedTuple, TypeVar

import orjson

from warren.environment import ConfigError, Env, TaskError
from warren_env_worker.host.child.choice import chosen, told_ids
from warren_env_worker.host.child.memory import MIB
from warren_env_worker.host.child.size import size_bytes
from warren_env_worker.host.environment_class.config import ConfigSchema
from warren_env_worker.host.protocol import Config, Row, Start
from warren_env_worker.host.refusal import config_refusal, one_line
from warren_env_worker.permissions.permissions import Permissions, acting
from warren_env_worker.permissions.secrets import remember

MAX_KEPT = 64
"""Configs and task lists that are kept; the one that was not used for longest goes first."""
MAX_TASKS_SHARE = 0.5
"""Of `Limits.memory_mb` of an environment's class, for lists of tasks together."""
MAX_TASKS_MIB = 1024
"""For them where there is no limit."""

_MISFITS = (TypeError, ValueError, LookupError, FileNotFoundError, PermissionError)
"""What a constructor or `tasks` raises for a config that won't work the next time either."""

_Load = tuple[bytes, str, tuple[str, ...], Permissions]

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")


class _Loaded(NamedTuple):
    tasks: Sequence[Any] | None
    used: Sequence[int] | None
    """The numbers of those that a run may play; None where the environment makes its own."""
    loader: Env[Any]
    """It knows what they are called."""
    n_loads: int
    """So many there had been with this one."""
    size_bytes: int


class TaskCache:
    """Instances and tasks of one class. All methods run user code and raise `Refusal`."""

    def __init__(self, environment: type[Env[Any]]) -> None:
        self._environment = environment
        self._schema = ConfigSchema(environment)
        self._arguments: dict[bytes, Config] = {}
        self._loaded: dict[_Load, _Loaded] = {}
        self.n_loads = 0
        limit_mb = environment.limits.memory_mb
        share_mib = MAX_TASKS_MIB if limit_mb is None else limit_mb * MAX_TASKS_SHARE
        self._most_bytes = int(share_mib * MIB)

    def make(self, start: Start) -> Env[Any]:
        """A fresh instance, which may reach what this episode may."""
        remember(start.sealed.opened_by_name())
        _, keys = start.sealed.opened()
        return self._made(start, start.permissions.with_values(keys))

    def _made(self, start: Start, permissions: Permissions) -> Env[Any]:
        key = _key(start.config)
        if key not in self._arguments:
            _keep(self._arguments, key, self._schema.check(start.config))
        _use(self._arguments, key)
        try:
            with acting(permissions):
                return self._environment(**self._arguments[key])
        except _MISFITS as error:
            raise config_refusal(f"the constructor refused: {one_line(error)}") from error

    def has_loaded(self, start: Start) -> bool:
        """Rows of data sets come with their episodes."""
        return start.row is not None or _load(start) in self._loaded

    def load(self, start: Start) -> Coroutine[Any, Any, None] | None:
        """Load the tasks of a split; may take long. No secret is told: others are forked from here."""
        loader = self._made(start, start.permissions)
        loader.wants_task_ids = bool(start.task_ids) or start.lists_ids
        with _misfits_of(start), acting(start.permissions):
            tasks = loader.tasks(start.split)
        if inspect.isawaitable(tasks):
            return self._load_later(start, loader, tasks)
        return self._keep_tasks(start, loader, tasks)

    async def _load_later(
        self, start: Start, loader: Env[Any], tasks: Awaitable[Sequence[Any] | None]
    ) -> None:
        with _misfits_of(start), acting(start.permissions):
            loaded = await tasks
        self._keep_tasks(start, loader, loaded)

    def _keep_tasks(self, start: Start, loader: Env[Any], tasks: Sequence[Any] | None) -> None:
        if tasks is not None and len(tasks) == 0:
            raise config_refusal(f"the split {start.split!r} has no tasks")
        with _misfits_of(start):
            used = chosen(loader, tasks, start.split, start.task_ids)
        self.n_loads += 1
        taken_bytes = 0 if tasks is None else size_bytes(tasks)
        _keep(self._loaded, _load(start), _Loaded(tasks, used, loader, self.n_loads, taken_bytes))
        self._make_room()

    def _make_room(self) -> None:
        while len(self._loaded) > 1 and self._taken_bytes > self._most_bytes:
            self._loaded.pop(next(iter(self._loaded)))

    @property
    def _taken_bytes(self) -> int:
        return sum(loaded.size_bytes for loaded in self._loaded.values())

    def loaded_at(self, start: Start) -> int:
        """A process that was forked after so many loads has the tasks of this episode.

        Of tasks that are kept no more, any process will do: it loads what it lacks.
        """
        if start.row is not None or not self.has_loaded(start):
            return 0
        _use(self._loaded, _load(start))
        return self._loaded[_load(start)].n_loads

    def task(self, start: Start) -> object:
        """The task of this episode, which is no row of a data set; None where the environment makes its own."""
        _use(self._loaded, _load(start))
        tasks, number = self._loaded[_load(start)].tasks, self.task_number(start)
        return None if tasks is None or number is None else tasks[number]

    def task_number(self, start: Start) -> int | None:
        """Which one of the split that is."""
        if start.row is not None:
            return start.row.number
        used = self._loaded[_load(start)].used
        return None if used is None else used[start.order.position(start.index, len(used))]

    def ids(self, start: Start) -> Sequence[str | None] | None:
        """What all of them are called, where the episode lists them."""
        if not start.lists_ids:
            return None
        loaded = self._loaded[_load(start)]
        return told_ids(loaded.loader, loaded.tasks, loaded.used)

    def n_tasks(self, start: Start) -> int | None:
        """How many there are to play; None also where the task is a row of a data set."""
        if start.row is not None:
            return None
        used = self._loaded[_load(start)].used
        return None if used is None else len(used)


def task_of_row(row: Row, environment: Env[Any]) -> object:
    """By the episode's own instance. Raises `TaskError`."""
    try:
        return environment.task_of(deepcopy(row.values))
    except (ConfigError, TaskError) as error:
        raise TaskError(f"row {row.number}: {one_line(error)}") from error
    except _MISFITS as error:
        raise TaskError(f"row {row.number}: task_of() refused it: {one_line(error)}") from error


@contextmanager
def _misfits_of(start: Start) -> Generator[None]:
    try:
        yield
    except _MISFITS as error:
        raise config_refusal(f"no tasks for {start.split!r}: {one_line(error)}") from error


def _load(start: Start) -> _Load:
    """Tasks are shared by those who may reach the same."""
    return _key(start.config), start.split, start.task_ids, start.permissions


def _key(config: Config) -> bytes:
    return orjson.dumps(config, option=orjson.OPT_SORT_KEYS)


def _use(kept: dict[KeyT, ValueT], key: KeyT) -> None:
    """From now on it is the last one to go."""
    kept[key] = kept.pop(key)


def _keep(kept: dict[KeyT, ValueT], key: KeyT, value: ValueT) -> None:
    kept[key] = value
    if len(kept) > MAX_KEPT:
        kept.pop(next(iter(kept)))
