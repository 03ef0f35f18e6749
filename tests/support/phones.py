"""Servers as AndroidWorld's, each a process with a phone, and episodes on them."""

import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
from tests.support.fake_android_world import Faults
from tests.support.processes import free_port, start_program

from warren.environment import ChatMessage, Context, StepResult
from warren_env_worker.environments.android_world.environment import AndroidWorld

ROOT = Path(__file__).parents[2]
SIZE = (72, 160)
"""Of a phone, so that pictures have its own size."""


@dataclass
class Phone:
    port: int = field(default_factory=free_port)
    size: tuple[int, int] = SIZE
    _process: Any = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    async def start(self) -> None:
        """Returns once it listens."""
        module = "tests.support.fake_android_world"
        command = (sys.executable, "-m", module, str(self.port), *map(str, self.size))
        self._process = await start_program(*command, environment={}, folder=ROOT, stderr=None)
        assert await self._process.stdout.readline() == b"ready\n"

    async def kill(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
            await self._process.communicate()

    async def switch(self, **faults: Any) -> None:
        """These faults on, and all others off."""
        await self.ask("POST", "_faults", Faults(**faults))

    async def asked(self) -> list[str]:
        return await self.ask("GET", "_asked")

    async def ask(self, method: str, path: str, body: object = None) -> Any:
        async with (
            aiohttp.ClientSession() as client,
            client.request(method, f"{self.url}{path}", json=body) as response,
        ):
            return await response.json()


@asynccontextmanager
async def phones(n: int, size: tuple[int, int] = SIZE) -> AsyncGenerator[list[Phone]]:
    async with AsyncExitStack() as stack:
        started = [Phone(size=size) for _ in range(n)]
        for phone in started:
            await phone.start()
            stack.push_async_callback(phone.kill)
        yield started


@dataclass
class Using:
    """An episode in this process."""

    environment: AndroidWorld
    first: ChatMessage
    goal: str
    results: list[StepResult] = field(default_factory=list[StepResult])

    async def do(self, *actions: str) -> list[StepResult]:
        self.results += [await self.environment.step(action) for action in actions]
        return self.results[-len(actions) :]


def config(
    servers: Sequence[Phone], kind: str = "ContactsAddContact", **more: Any
) -> dict[str, Any]:
    urls = [phone.url for phone in servers]
    return {"servers": urls, "task_types": [kind], "patience_s": 0.5, "answer_s": 60.0, **more}


@asynccontextmanager
async def using(
    servers: Sequence[Phone],
    kind: str = "ContactsAddContact",
    *,
    seed: int = 1,
    index: int = 0,
    **more: Any,
) -> AsyncGenerator[Using]:
    environment = AndroidWorld(**config(servers, kind, **more))
    try:
        (first,) = await environment.reset(None, Context.derive(seed, index=index))
        goal = first.content.partition("\n")[0].removeprefix("Goal: ")
        yield Using(environment, first, goal)
    finally:
        await environment.close()


def opened(app: str) -> str:
    return f'<action>{{"action_type": "open_app", "app_name": "{app}"}}</action>'


def typed(text: str) -> str:
    return f'I type.\nAction: {{"action_type": "input_text", "text": "{text}"}}'


def told(status: str) -> str:
    return f'{{"action_type": "status", "goal_status": "{status}"}}'


def name_in(goal: str) -> str:
    return goal.removeprefix("Create a new contact for ").rstrip(".")
