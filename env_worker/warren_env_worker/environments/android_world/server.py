"""Requests to one AndroidWorld server.

Invariants: no request is sent twice, since the server tells none from its twin; one that gets no answer, or hangs, loses
the slot. The server has no sessions: whoever asks plays with its one emulator. So the task that an episode began is asked
for before it goes on, and a server that was started anew, or is played by others as well, is found out.
"""

from collections.abc import Mapping
from typing import Any, TypeVar
from urllib.parse import urlencode

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, TypeAdapter, ValidationError

from warren.environment import ConfigError
from warren_env_worker.environments.android_world.screen import (
    MAX_SCREEN_BYTES,
    NoScreen,
    Screen,
    screen,
)
from warren_env_worker.permissions.retries import RetryLater, SessionLost
from warren_env_worker.permissions.retrying_client import RetryingClient
from warren_env_worker.permissions.service import MAX_ANSWER_BYTES, Service, content_of

Query = Mapping[str, str | int]
AnswerT = TypeVar("AnswerT")


HEALTH_S = 20.0


class AndroidFailed(Exception):
    """No server can play the episode to its end."""


class SlotLost(SessionLost):
    """The server or its emulator is gone, hangs, or has another task. Told in fixed words."""


class Refused(Exception):
    """The server answered with a failure; it may be the emulator's or that of what was asked."""


class _Answer(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class _Tasks(_Answer):
    task_list: tuple[str, ...] = Field(min_length=1)


class _Length(_Answer):
    length: int


class _Goal(_Answer):
    goal: str = Field(min_length=1)


class _Score(_Answer):
    score: FiniteFloat


class _Done(_Answer):
    status: str


_TASKS, _LENGTH, _GOAL = TypeAdapter(_Tasks), TypeAdapter(_Length), TypeAdapter(_Goal)
_SCORE, _DONE = TypeAdapter(_Score), TypeAdapter(_Done)


class AndroidServer:
    """For one event loop, and the time in which this process has the slot."""

    def __init__(self, service: Service, *, answer_s: float, width: int) -> None:
        headers = {"Authorization": f"Bearer {service.key}"} if service.key is not None else {}
        self.url = str(service.url)
        self._answer_s = answer_s
        self._width = width
        self._client = RetryingClient(
            service, headers, answer_s=answer_s, patience_s=0.0, failure=SlotLost
        )

    async def close(self) -> None:
        await self._client.close()

    async def check_health(self) -> None:
        """Its `/health` is no proof, for it says nothing of the emulator: that must go home and be seen, too.

        Raises `SlotLost`.
        """
        try:
            await self._ask(_DONE, "GET", "health", {}, answer_s=min(HEALTH_S, self._answer_s))
            await self._ask(_DONE, "POST", "reset", {"go_home": "true"})
        except Refused as error:
            raise SlotLost("it is not healthy") from error
        await self.screen()

    async def reinitialize(self, family: str, combinations: int, seed: int) -> None:
        """Makes all tasks of the family anew. Raises `SlotLost`, `Refused`, `ConfigError`."""
        of = {"n_task_combinations": combinations, "seed": seed, "task_family": family}
        await self._ask(_DONE, "GET", "suite/reinitialize", of)

    async def task_types(self) -> tuple[str, ...]:
        """Raises `SlotLost`."""
        try:
            told = await self._ask(_TASKS, "GET", "suite/task_list", {"max_index": -1})
        except Refused as error:
            raise SlotLost("it can't name its tasks") from error
        return told.task_list

    async def n_combinations(self, task_type: str) -> int:
        """Raises `Refused` for a type that is none of the suite."""
        asked = {"task_type": task_type}
        return (await self._ask(_LENGTH, "GET", "suite/task_length", asked)).length

    async def initialize(self, task: Query) -> None:
        await self._ask(_DONE, "POST", "task/initialize", task)

    async def tear_down(self, task: Query) -> None:
        await self._ask(_DONE, "POST", "task/tear_down", task)

    async def goal(self, task: Query) -> str:
        return (await self._ask(_GOAL, "GET", "task/goal", task)).goal

    async def score(self, task: Query) -> float:
        return (await self._ask(_SCORE, "GET", "task/score", task)).score

    async def execute(self, action: dict[str, Any]) -> None:
        await self._ask(_DONE, "POST", "execute_action", {}, body=action)

    async def screen(self) -> Screen:
        """Once nothing moves on it. Raises `SlotLost`."""
        asked = {"wait_to_stabilize": "true"}
        try:
            return screen(await self._content("GET", "screenshot", asked, None, None), self._width)
        except (Refused, NoScreen) as error:
            raise SlotLost("its emulator shows no screen") from error

    async def _ask(
        self,
        adapter: TypeAdapter[AnswerT],
        method: str,
        path: str,
        query: Query,
        *,
        body: object = None,
        answer_s: float | None = None,
    ) -> AnswerT:
        """Raises `SlotLost`, `Refused`, and `ConfigError` for what would be refused by any server."""
        content = await self._content(method, path, query, body, answer_s)
        try:
            return adapter.validate_json(content)
        except ValidationError as error:
            raise self._client.unreadable(path, error) from error

    async def _content(
        self, method: str, path: str, query: Query, body: object, answer_s: float | None
    ) -> bytes:
        asked = f"{path}?{urlencode(query)}" if query else path
        most = MAX_SCREEN_BYTES if path == "screenshot" else MAX_ANSWER_BYTES
        try:
            async with self._client.response(method, asked, body, None, answer_s) as response:
                content = await content_of(response, most)
        except RetryLater as error:
            raise SlotLost("it can't be reached, or it hangs") from error
        except ValueError as error:
            raise SlotLost(f"its answer to {path} is too long") from error
        if response.status == 200:
            return content
        if path == "suite/reinitialize" and response.status == 400:
            raise ConfigError(f"task_family: {self.url} has no {query['task_family']}")
        if response.status == 500:
            raise Refused(path)
        raise SlotLost(f"it answers {path} with status {response.status}")
