"""A Python written in Rust that has no files, no network and no processes to offer (pydantic-monty).

It starts in milliseconds and runs on any system. It lacks much: no generators, few modules (math, re,
json …; no fractions, no numpy). Where cells need more, take another tier. It runs in a process of its
own, so that even a crash of it is contained.
"""

import asyncio
from contextlib import AsyncExitStack

from pydantic_monty import (
    AsyncMonty,
    AsyncMontySession,
    CollectString,
    MontyCrashedError,
    MontyError,
    MontyRuntimeError,
    MontySyntaxError,
)

from warren.host_services.cells import CellResult, CellStatus, SandboxFailed
from warren.host_services.settings import MIB, SandboxSettings
from warren_env_worker.sandbox.port import shortened

FLOOD_BYTES = 8 * MIB
START_S = 30.0
GRACE_S = 1.0
"""How long after its limit a cell may take to stop itself before its process is killed."""


class MontySandbox:
    tier = "monty"
    keeps_state = True

    def __init__(self, settings: SandboxSettings) -> None:
        self._limits = settings.limits
        self._stack = AsyncExitStack()
        self._session: AsyncMontySession | None = None

    @property
    def is_alive(self) -> bool:
        """Whether its session has started and not ended."""
        return self._session is not None

    async def start(self) -> None:
        """Start the session now and not with its first cell. Raises `SandboxFailed`."""
        if self._session is not None:
            return
        limits = self._limits
        try:
            async with asyncio.timeout(START_S):
                pool = await self._stack.enter_async_context(AsyncMonty(max_processes=1))
                session = pool.checkout(
                    limits={
                        "max_feed_duration_secs": limits.cell_s,
                        "max_total_sleep_secs": limits.cell_s,
                        "max_memory": limits.memory_mib * MIB,
                    }
                )
                self._session = await self._stack.enter_async_context(session)
        except (OSError, MontyError, TimeoutError) as error:
            raise SandboxFailed(f"pydantic-monty does not start: {error}") from error

    async def run(self, code: str, limit_s: float) -> CellResult:
        """Run a cell; one that reaches a time limit loses the session. Raises `SandboxFailed`."""
        await self.start()
        assert self._session is not None
        printed = CollectString(FLOOD_BYTES)
        code = code.encode(errors="replace").decode()
        status, shown = CellStatus.LOST, ""
        try:
            async with asyncio.timeout(limit_s + GRACE_S):
                value = await self._session.feed_run(code, print_callback=printed)
            status, shown = CellStatus.OK, "" if value is None else f"{value!r}\n"
        except (TimeoutError, MontyCrashedError):
            pass
        except MontyError as error:
            status, shown = _status(error), _shown(error)
        finally:
            if status is CellStatus.LOST:
                await self.close()
        return CellResult(status, shortened(printed.output + shown, self._limits.output_bytes))

    async def close(self) -> None:
        """End the session; a later cell starts a fresh one."""
        self._session = None
        await self._stack.aclose()


def _status(error: MontyError) -> CellStatus:
    """Its documentation gives no guarantees about a session after a time limit."""
    cause = error.exception()
    if isinstance(cause, TimeoutError):
        return CellStatus.LOST
    return CellStatus.MEMORY if isinstance(cause, MemoryError) else CellStatus.ERROR


def _shown(error: MontyError) -> str:
    is_placed = isinstance(error, MontyRuntimeError | MontySyntaxError)
    return (error.display() if is_placed else str(error)) + "\n"
