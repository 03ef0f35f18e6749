"""Environments, their splits, and how many tasks those have.

Invariants: a split and an index are the same task everywhere: with one server's seed, and in a run whose
`seed` that is and which does not shuffle. A task has the id that its environment gives it, unless another one of the split has
the same.
"""

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Listed:
    """The tasks of a split."""

    n_tasks: int
    ids: Sequence[str | None]
    """None: it has none of its own. Empty where no task has one."""

    def id_of(self, index: int) -> str | None:
        return self.ids[index] if index < len(self.ids) else None


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
        self._tasks: dict[tuple[str, str], _Listed] = {}
        self._listing = defaultdict[tuple[str, str], asyncio.Lock](asyncio.Lock)
        for name in served:
            if name not in hosts:
                raise ConfigurationError(f"--settings: {_unknown(name, list(hosts))}")

    @property
    def names(self) -> list[str]:
        return list(self._names)

    @property
    def names_served(self) -> list[str]:
        """Without those that are known to be refused: of one whose process has not started nothing is known."""
        return [name for name, environment in self._names.items() if not self._refused(environment)]

    def _refused(self, environment: str) -> bool:
        described = self._hosts[environment].description
        return described is not None and why_refused(environment, described) is not None

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
        if why := why_refused(environment, described):
            raise OrsError(400, why)
        return described

    async def splits(self, environment: str) -> list[str]:
        described = await self.described(environment)
        return list(self._of(environment).splits or described.splits or USUAL_SPLITS)

    async def n_tasks(self, environment: str, split: str) -> int:
        """Raises `OrsError`."""
        return (await self._listed(environment, split)).n_tasks

    async def task(self, environment: str, split: str, index: int) -> Task:
        listed = await self._listed(environment, split)
        if not 0 <= index < listed.n_tasks:
            raise OrsError(400, f"{split} has {listed.n_tasks} tasks; there is no task {index}")
        return Task.of(environment, split, index, listed.id_of(index))

    async def tasks(
        self, environment: str, split: str, start: int | None = None, stop: int | None = None
    ) -> list[Task]:
        listed = await self._listed(environment, split)
        numbers = range(listed.n_tasks)[start:stop]
        if len(numbers) > MAX_LISTED:
            what = f"{len(numbers)} tasks are too many to list; ask for ranges of {MAX_LISTED}"
            raise OrsError(400, what)
        return [Task.of(environment, split, each, listed.id_of(each)) for each in numbers]

    def opened(
        self, environment: str, split: str, index: int, *, n_live: int, lists_ids: bool = False
    ) -> Episode:
        """An episode of a task that is there, which has not begun. Raises `OrsError`: too many are live."""
        if n_live >= self._capacity or not self._hosts[environment].has_capacity:
            raise OrsError(429, f"{n_live} sessions of {environment} are live; no more are taken")
        task = TaskRef(split=split, index=index, shuffle=False)
        spec = spec_of(environment, task, self._of(environment), seed=self._seed)
        return Episode(self._hosts[environment], spec, lists_ids=lists_ids)

    async def _listed(self, environment: str, split: str) -> _Listed:
        await self._require_split(environment, split)
        key = environment, split
        async with self._listing[key]:
            if key not in self._tasks:
                self._tasks[key] = await self._asked(environment, split)
        return self._tasks[key]

    async def _require_split(self, environment: str, split: str) -> None:
        splits = await self.splits(environment)
        if split not in splits:
            what = f"{environment} has no split {split!r}; it has {', '.join(splits)}"
            raise OrsError(400, what)

    async def _asked(self, environment: str, split: str) -> _Listed:
        """Told by the first task's beginning."""
        episode = self.opened(environment, split, 0, n_live=0, lists_ids=True)
        try:
            begun = await episode.begin()
        except EpisodeFailed as error:
            raise as_answer(error) from error
        finally:
            episode.close()
        n_tasks = self._of(environment).n_tasks if begun.n_tasks is None else begun.n_tasks
        return _Listed(n_tasks, _alone(begun.all_ids or (), f"{environment}, {split}"))

    def _of(self, environment: str) -> Served:
        return self._served.get(environment, Served())


def why_refused(environment: str, described: Description) -> str | None:
    """Of one that can't be played by words, and rewarded by itself."""
    if described.sees_tokens:
        return f"{environment} reads tokens, and clients of ORS send words alone"
    if described.compares_groups:
        return f"{environment} compares the episodes of a group (score_group), and over ORS each is rewarded by itself"
    return None


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


def _alone(ids: Sequence[str | None], of: str) -> Sequence[str | None]:
    """Those that one task alone has."""
    n_having = Counter(ids)
    repeated = [each for each, n in n_having.items() if each is not None and n > 1]
    if repeated:
        log.warning(
            "%s: several tasks have the id %r (%d ids in all): they are told by their numbers",
            of,
            repeated[0],
            len(repeated),
        )
    return [each if n_having[each] == 1 else None for each in ids]


def as_listed(split: str) -> dict[str, str]:
    return {"name": split, "type": split if split in TYPES else "validation"}


def _by_path(hosts: Mapping[str, Host]) -> dict[str, str]:
    names: dict[str, str] = {}
    for name in hosts:
        if (other := names.setdefault(name.lower(), name)) != name:
            raise ConfigurationError(
                f"ORS ignores case in names: {other} and {name} can't both be served",
                hint=f"Give one another name, as in --env other={name}",
            )
    return names


def _unknown(name: str, names: list[str]) -> str:
    match = nearest(name, names)
    rest = f"did you mean {match}?" if match else f"there are: {', '.join(names)}"
    return f"there is no environment {name!r}; {rest}"
