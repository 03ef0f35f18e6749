"""One task of AndroidWorld, on one server of the pool at a time.

Invariants: what the policy was shown is what the device went through. A slot that is lost is left alone for a while, and the
task is begun and played anew on another one: if its goal or a screen differs, it is `NotReplayable`. An episode has a
real emulator or fails by name. A task that can't be set up or scored on a device that is well is its own trouble, and
not the slot's.
"""

import contextlib
import secrets
from asyncio import timeout
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from warren.environment import NotReplayable, TaskError
from warren_env_worker.environments.android_world.pool import NOT_TORN_DOWN, Held, Pool
from warren_env_worker.environments.android_world.screen import Screen
from warren_env_worker.environments.android_world.server import (
    AndroidFailed,
    AndroidServer,
    Query,
    Refused,
    SlotLost,
)
from warren_env_worker.environments.android_world.slots import GivenTask, goal_digest
from warren_env_worker.environments.android_world.tearing_down import tear_down
from warren_env_worker.permissions.retries import MAX_LOSSES, SessionLost, unless_lost

LEAVE_S = 25.0
N_MARKS = 16
"""By so many numbers of combinations an episode tells its suite from one that others have made of the same seed."""

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class TaskChoice:
    index: int
    """Counted without end: types by turns, and then combinations of what they are about."""
    types: tuple[str, ...]
    """Empty: all that the server has."""
    family: str
    combinations: int
    seed: int


class Begun(NamedTuple):
    task_type: str
    combination: int
    goal: str
    screen: Screen


class Shown(NamedTuple):
    screen: Screen
    is_refused: bool = False
    """The device did not do what it was told."""


class _Task(NamedTuple):
    named: Query
    goal: str
    n_combinations: int
    """Of each type in the suite that was made for it."""


class _Playing(NamedTuple):
    held: Held
    task: _Task

    @property
    def server(self) -> AndroidServer:
        return self.held.server


class AndroidEpisode:
    def __init__(self, pool: Pool, choice: TaskChoice) -> None:
        self._pool = pool
        self._choice = choice
        self._playing: _Playing | None = None
        self._first: tuple[str, str] | None = None
        """The goal, and the digest of the first screen."""
        self._done: list[tuple[dict[str, Any], str]] = []
        """Each action, and the digest of the screen behind it."""

    async def begin(self) -> Begun:
        """Raises `AndroidFailed`, `TaskError`, `ConfigError`."""
        begun = await self._unless_lost(self._begin)
        self._first = (begun.goal, begun.screen.digest)
        return begun

    async def act(self, action: dict[str, Any]) -> Shown:
        """Raises `AndroidFailed`, `NotReplayable`."""
        shown = await self._unless_lost(lambda: self._at_its_place(action))
        self._done.append((action, shown.screen.digest))
        return shown

    async def score(self) -> float:
        """Of the device as it is. Raises `AndroidFailed`, `NotReplayable`."""
        return await self._unless_lost(self._scored)

    async def close(self) -> None:
        """Whoever comes next finds the task torn down, or the slot in quarantine; where this is not called, the slot's file
        has the task, and whoever comes next tears it down."""
        left, self._playing = self._playing, None
        if left is None:
            return
        try:
            async with timeout(LEAVE_S):
                await tear_down(left.server, left.held.slot)
        except (SlotLost, Refused, TimeoutError):
            await self._pool.lose(left.held, NOT_TORN_DOWN)
        else:
            await left.held.leave()

    async def _unless_lost(self, ask: Callable[[], Awaitable[ResultT]]) -> ResultT:
        return await unless_lost(ask, self._lose, self._failed)

    async def _lose(self, lost: SessionLost) -> None:
        left, self._playing = self._playing, None
        if left is not None:
            await self._pool.lose(left.held, str(lost))

    def _failed(self) -> AndroidFailed:
        return AndroidFailed(f"{MAX_LOSSES} servers were lost at one action; {self._pool.reasons}")

    async def _begin(self) -> Begun:
        """On a server that is free and well. Raises `SlotLost` besides."""
        held = await self._pool.held()
        try:
            task = await self._set_up(held)
        except SlotLost as lost:
            await self._pool.lose(held, str(lost))
            raise
        except BaseException:
            await held.leave()
            raise
        self._playing = _Playing(held, task)
        named = task.named
        screen = await held.server.screen()
        return Begun(str(named["task_type"]), int(named["task_idx"]), task.goal, screen)

    async def _set_up(self, held: Held) -> _Task:
        of, server = self._choice, held.server
        n_combinations = of.combinations + secrets.randbelow(N_MARKS)
        await self._make_suite(server, n_combinations)
        types = of.types or await server.task_types()
        turn, number = divmod(of.index, len(types))
        task: Query = {"task_type": types[number], "task_idx": turn % of.combinations}
        try:
            goal = await server.goal(task)
            held.slot.note(self._given(task, n_combinations, goal))
            await server.initialize(task)
        except Refused as error:
            await server.check_health()
            with contextlib.suppress(Refused):
                await tear_down(server, held.slot)
            raise TaskError(f"{types[number]} could not be set up on {server.url}") from error
        return _Task(task, goal, n_combinations)

    async def _make_suite(self, server: AndroidServer, n_combinations: int) -> None:
        """Raises `SlotLost`, `ConfigError`."""
        try:
            await server.reinitialize(self._choice.family, n_combinations, self._choice.seed)
        except Refused as error:
            raise SlotLost("it could not make its tasks") from error

    def _given(self, task: Query, n_combinations: int, goal: str) -> GivenTask:
        return GivenTask(
            family=self._choice.family,
            n_combinations=n_combinations,
            seed=self._choice.seed,
            task_type=str(task["task_type"]),
            task_idx=int(task["task_idx"]),
            goal=goal_digest(goal),
        )

    async def _there(self) -> _Playing:
        """A server at which everything was done that the policy has done, and nothing else."""
        if self._playing is None:
            begun = await self._begin()
            if (begun.goal, begun.screen.digest) != self._first:
                raise self._differs("restarted on another one, the task")
            for number, (action, digest) in enumerate(self._done, 1):
                if (await self._once(action)).screen.digest != digest:
                    raise self._differs(f"replayed on another one, action {number}")
        assert self._playing is not None  # `_begin` sets it
        await self._require_ours(self._playing)
        return self._playing

    async def _at_its_place(self, action: dict[str, Any]) -> Shown:
        await self._there()
        return await self._once(action)

    async def _once(self, action: dict[str, Any]) -> Shown:
        assert self._playing is not None  # `_there` comes first
        server = self._playing.server
        try:
            await server.execute(action)
        except Refused:
            return Shown(await server.screen(), is_refused=True)
        return Shown(await server.screen())

    async def _require_ours(self, playing: _Playing) -> None:
        """Raises `SlotLost`."""
        try:
            task_type = str(playing.task.named["task_type"])
            n_combinations = await playing.server.n_combinations(task_type)
            goal = await playing.server.goal(playing.task.named)
        except Refused as error:
            raise SlotLost(
                "it has another task: it was restarted, or another client uses it"
            ) from error
        if (n_combinations, goal) != (playing.task.n_combinations, playing.task.goal):
            raise SlotLost("it has another task: it was restarted, or another client uses it")

    async def _scored(self) -> float:
        playing = await self._there()
        try:
            score = await playing.server.score(playing.task.named)
        except Refused as error:
            await playing.server.check_health()
            raise AndroidFailed(
                f"{playing.server.url} could not score {playing.task.named['task_type']}"
            ) from error
        playing.held.slot.trust()
        return score

    def _differs(self, what: str) -> NotReplayable:
        return NotReplayable(f"a server was lost; {what} looks different ({self._pool.reasons})")
