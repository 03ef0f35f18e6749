"""Agents of every dialect, which tell a ledger all that they are answered.

The ledger is the test's: it keeps what it was told however the teller ends, and can hold agents up, so that a test
knows who is in the middle of an episode when it breaks something.
"""

import asyncio
import json
import os
import re
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
from tests.support.conversations import SURFACES, SYSTEM, Script, Shown, Surface, Tokens, user
from tests.support.patience import PATIENCE_S

from warren import Agent, AgentEnv

N_TURNS = 4
_NAME = re.compile(r"[0-9a-f]{16}")


@dataclass(eq=False)
class Told:
    """What one agent was answered, in this order."""

    name: str
    dialect: str
    worker: int
    """The process of the env worker that hosts it."""
    answers: list[str] = field(default_factory=list[str])
    has_returned: bool = False
    """It has come to its end."""
    has_ended: bool = False
    """Or it is gone."""


class Ledger:
    """Agents tell it each answer before they ask on; while it holds them, they wait for it."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket
        self.told: dict[str, Told] = {}
        self._held: list[Told] = []
        self._changed = asyncio.Condition()
        self._is_open = asyncio.Event()
        self._is_open.set()

    @property
    def live(self) -> list[Told]:
        """Who was answered and goes on."""
        return [each for each in self.told.values() if each.answers and not each.has_ended]

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[None]:
        async with await asyncio.start_unix_server(self._hear, self.socket, backlog=1024):
            yield

    @asynccontextmanager
    async def holding(
        self, is_enough: Callable[[Sequence[Told]], bool]
    ) -> AsyncGenerator[list[Told]]:
        """Agents in the middle of their episodes, once there are enough of them; they go on afterwards."""
        self._held.clear()
        self._is_open.clear()
        await self._until(lambda: is_enough(self._held))
        try:
            yield [*self._held]
        finally:
            self._is_open.set()

    async def have_ended(self, agents: Sequence[Told]) -> None:
        await self._until(lambda: all(each.has_ended for each in agents))

    async def _until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S), self._changed:
            await self._changed.wait_for(holds)

    async def _hear(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        name, dialect, worker = json.loads(await reader.readline())
        self.told[name] = Told(name, dialect, worker)
        with suppress(ConnectionError):  # it was killed while it waited
            while line := await reader.readline():
                await self._note(self.told[name], json.loads(line))
                await self._is_open.wait()
                writer.write(b"\n")
        writer.close()
        async with self._changed:
            self.told[name].has_ended = True
            self._changed.notify_all()

    async def _note(self, told: Told, answer: str | None) -> None:
        if answer is None:
            told.has_returned = True
        else:
            told.answers.append(answer)
        async with self._changed:
            if not self._is_open.is_set() and 0 < len(told.answers) < N_TURNS:
                self._held.append(told)
            self._changed.notify_all()


def name_in(words: str) -> str:
    """Of the agent that asked with these words."""
    found = _NAME.search(words)
    assert found is not None, words
    return found[0]


class Telling(AgentEnv):
    """It tells the ids of all tokens where it asks in those, and words elsewhere."""

    name = "telling"

    def __init__(self, dialect: str, socket: str) -> None:
        self.dialect = dialect
        self.socket = socket

    async def run(self, task: None, agent: Agent) -> float:
        reader, writer = await asyncio.open_unix_connection(self.socket)

        async def tell(what: object) -> None:
            writer.write(json.dumps(what).encode() + b"\n")
            await reader.readline()

        try:
            name = uuid.uuid4().hex[:16]
            writer.write(json.dumps([name, self.dialect, os.getppid()]).encode() + b"\n")
            said = await self._said(agent, name, tell)
            await tell(None)
        finally:
            writer.close()
        return float(sum(map(ord, said)) % 2)  # whatever a policy says earns it about half

    async def _said(
        self, agent: Agent, name: str, tell: Callable[[object], Awaitable[None]]
    ) -> str:
        """At last."""
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout()) as session:
            surface = SURFACES[self.dialect](agent, session, Script(()))
            said, shown = "", Shown(0, (SYSTEM, user(f"{name}?")))
            for turn in range(1, N_TURNS + 1):
                said = await surface.show(shown)
                await tell(_answered(surface, said))
                shown = Shown(turn, (user(">"),))
        return said


def _answered(surface: Surface, said: str) -> str:
    """All tokens so far, or the words."""
    history: list[Any] = surface.histories[-1]
    return " ".join(map(str, history)) if isinstance(surface, Tokens) else said
