"""Environments that ask host services for what the policy says, in methods that block and in `async` ones."""

import asyncio
import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

from tests.support.patience import PATIENCE_S

from warren.environment import Context, Env, Isolation, StepResult
from warren.host_services import CellResult, SandboxSettings

MARK = "import ctypes; _ = ctypes.CDLL(None).prctl(15, b'{}', 0, 0, 0)"
"""A cell that gives its session's process a name of at most 15 characters, by which it is found from outside."""


def a_name() -> str:
    """That no process has by now, of this session of tests or of another."""
    return f"c-{secrets.token_hex(6)}"


def pids_called(name: str) -> list[int]:
    """Processes of this name; those that end while they are looked at are gone."""
    found: list[int] = []
    for entry in os.listdir("/proc"):
        with suppress(OSError):
            if entry.isdigit() and Path(f"/proc/{entry}/comm").read_text().strip() == name:
                found.append(int(entry))
    return found


async def become(reached: Callable[[], bool]) -> None:
    """Processes of others say nothing when they end: we look."""
    async with asyncio.timeout(PATIENCE_S):
        while not reached():  # noqa: ASYNC110 - nothing tells us
            await asyncio.sleep(0.01)


class Cells(Env):
    """Each action is a cell, and what comes of it is shown; `stop` ends it, `verify A B` compares, `own X` runs X in a
    session that was opened in `reset`."""

    name = "cells"

    def __init__(self, sandbox: SandboxSettings | None = None) -> None:
        self.sandbox = sandbox or SandboxSettings()

    def reset(self, task: None, ctx: Context) -> str:
        self.own = ctx.sandbox(self.sandbox)
        return shown(ctx.python("x = 6", sandbox=self.sandbox).wait())

    def step(self, action: str) -> StepResult:
        ctx, (verb, *rest) = self.context, action.split(" ", 1)
        if verb == "stop":
            return ended()
        if verb == "verify":
            answer, gold = rest[0].split()
            return StepResult(ctx.verify(answer, gold).wait())
        if verb == "own":
            return StepResult(shown(self.own.run(rest[0]).wait()))
        return StepResult(shown(ctx.python(action, sandbox=self.sandbox).wait()))


class FreshCells(Cells):
    isolation: ClassVar[Isolation | None] = "episode"


class CellsLater(Env):
    """The same, awaited."""

    name = "cells"

    def __init__(self, sandbox: SandboxSettings | None = None) -> None:
        self.sandbox = sandbox or SandboxSettings()

    async def reset(self, task: None, ctx: Context) -> str:
        self.own = ctx.sandbox(self.sandbox)
        return shown(await ctx.python("x = 6", sandbox=self.sandbox))

    async def step(self, action: str) -> StepResult:
        ctx, (verb, *rest) = self.context, action.split(" ", 1)
        if verb == "stop":
            return ended()
        if verb == "verify":
            answer, gold = rest[0].split()
            return StepResult(await ctx.verify(answer, gold))
        if verb == "own":
            return StepResult(shown(await self.own.run(rest[0])))
        return StepResult(shown(await ctx.python(action, sandbox=self.sandbox)))


def shown(result: CellResult) -> str:
    return f"{result.status}: {result.output}"


def ended() -> StepResult:
    return StepResult(reward=1.0, done=True, metrics={"pid": float(os.getpid())})
