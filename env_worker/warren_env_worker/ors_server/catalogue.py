"""Environments, their splits, and how many tasks those have.

Invariant: a split and an index are the same task everywhere: with one server's seed, and in a run whose
`seed` that is and which does not shuffle.
"""

import asyncio
from collections import defaultdict
from collections.abc import Mapping

from warren.errors import ConfigurationError
from warren_env_worker.host.host import Host
from warren_env_worker.host.protocol import Description
from warren_env_worker.host.startup import EnvironmentUnusable
from warren_env_worker.ors_server.bodies import Task
from warren_env_worker.ors_server.errors import OrsError
from warren_env_worker.ors_server.settings import Served
from warren_env_worker.ors_server.tools import FORM
from warren_env_worker.served_episode import Episode, EpisodeFailed
from warren_schemas.config import Sampling
from warren_schemas.episode import EpisodeSpec, FailureKind, PolicyRef, TaskRef
from warren_schemas.ids import GroupId, ModelId, new_id
from warren_schemas.text.explain import nearest

MAX_LISTED = 100_000
"""Tasks in one answer."""
USUAL_SPLITS = ("train", "test")
TYPES = ("train", "validation", "test")

_THEIRS = PolicyRef(model=ModelId("theirs"), base_model="theirs", min_version=0)
"""Whoever asks has the policy."""


class Catalogue:
    def __init__(
        self, hosts: Mapping[str, Host], served: Mapping[str, Served], *, seed: int, capacity: int
    ) -> None:
        """Raises `ConfigurationError` for names that can't be served."""
        self._hosts = hosts
        self._served = served
        self._seed = seed
        self._capacity = capacity
        self._names = _by_path(hosts)
        self._n_tasks: dict[tuple[str, str], int] = {}
        self._counting = defaultdict[tuple[str, str], asyncio.Lock](asyncio.Lock)
        for name in served:
            if name not in hosts:
                raise ConfigurationError(f"--settings: {_unknown(name, list(hosts))}")

    @property
    def names(self) -> list[str]:
        return list(self._names)

    def named(self, name: str) -> str:
        """The environment of this name, in upper or lower case. Raises `OrsError`."""
        found = self._names.get(name.lower())
        if found is None:
            raise OrsError(404, _unknown(name, self.names))
        return found

    async def described(self, environment: str) -> Description:
        try:
            described = await self._hosts[environment].start()
        except EnvironmentUnusable as error:
            raise OrsError(500, f"{environment} can't be hosted: {error.message}") from error
        if described.sees_tokens:
            raise OrsError(400, f"{environment} reads tokens, and clients of ORS send words alone")
        return described

    async def splits(self, environment: str) -> list[str]:
        described = await self.described(environment)
        return list(self._of(environment).splits or described.splits or USUAL_SPLITS)

    async def n_tasks(self, environment: str, split: str) -> int:
        """Raises `OrsError`."""
        await self._require_split(environment, split)
        key = environment, split
        async with self._counting[key]:
            if key not in self._n_tasks:
                self._n_tasks[key] = await self._counted(environment, split)
        return self._n_tasks[key]

    async def task(self, environment: str, split: str, index: int) -> Task:
        n_tasks = await self.n_tasks(environment, split)
        if not 0 <= index < n_tasks:
            raise OrsError(400, f"{split} has {n_tasks} tasks; there is no task {index}")
        return Task.of(environment, split, index)

    async def tasks(
        self, environment: str, split: str, start: int | None = None, stop: int | None = None
    ) -> list[Task]:
        numbers = range(await self.n_tasks(environment, split))[start:stop]
        if len(numbers) > MAX_LISTED:
            what = f"{len(numbers)} tasks are too many to list; ask for ranges of {MAX_LISTED}"
            raise OrsError(400, what)
        return [Task.of(environment, split, number) for number in numbers]

    def opened(self, environment: str, split: str, index: int, *, n_live: int) -> Episode:
        """An episode of a task that is there, which has not begun. Raises `OrsError`: too many are live."""
        if n_live >= self._capacity or not self._hosts[environment].has_capacity:
            raise OrsError(429, f"{n_live} sessions of {environment} are live; no more are taken")
        task = TaskRef(split=split, index=index, shuffle=False)
        spec = spec_of(environment, task, self._of(environment), seed=self._seed)
        return Episode(self._hosts[environment], spec)

    async def _require_split(self, environment: str, split: str) -> None:
        splits = await self.splits(environment)
        if split not in splits:
            what = f"{environment} has no split {split!r}; it has {', '.join(splits)}"
            raise OrsError(400, what)

    async def _counted(self, environment: str, split: str) -> int:
        """Told by the first task's beginning."""
        episode = self.opened(environment, split, 0, n_live=0)
        try:
            n_tasks = (await episode.begin()).n_tasks
        except EpisodeFailed as error:
            raise as_answer(error) from error
        finally:
            episode.close()
        return self._of(environment).n_tasks if n_tasks is None else n_tasks

    def _of(self, environment: str) -> Served:
        return self._served.get(environment, Served())


def spec_of(environment: str, task: TaskRef, served: Served, *, seed: int) -> EpisodeSpec:
    """Calls are told to it in our form, whatever form of its own it has."""
    return EpisodeSpec(
        group=GroupId(new_id("session")),
        member=0,
        environment=environment,
        environment_config=served.config,
        task=task,
        seed=seed,
        policy=_THEIRS,
        sampling=Sampling(),
        max_turns=served.max_turns,
        tool_format=FORM,
    )


def as_answer(error: EpisodeFailed) -> OrsError:
    """Of an episode that could not begin."""
    statuses = {FailureKind.ENVIRONMENT_CONFIG: 400, FailureKind.CANCELLED: 410}
    return OrsError(statuses.get(error.kind, 500), str(error))


def as_listed(split: str) -> dict[str, str]:
    return {"name": split, "type": split if split in TYPES else "validation"}


def _by_path(hosts: Mapping[str, Host]) -> dict[str, str]:
    names: dict[str, str] = {}
    for name in hosts:
        if (other := names.setdefault(name.lower(), name)) != name:
            raise ConfigurationError(
                f"ORS tells no upper from lower case: {other} and {name} can't both be served",
                hint=f"Give one another name, as in --env other={name}",
            )
    return names


def _unknown(name: str, names: list[str]) -> str:
    match = nearest(name, names)
    rest = f"did you mean {match}?" if match else f"there are: {', '.join(names)}"
    return f"there is no environment {name!r}; {rest}"
