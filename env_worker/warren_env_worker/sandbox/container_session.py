"""A session in a container: its process is the client of an engine, which runs the container elsewhere.

Invariant: a container ends with its session. Its engine is asked for that by name, as the end of a client alone ends no cell
that is running.
"""

import asyncio
import contextlib
import logging
import secrets

from warren.host_services.cells import SandboxFailed
from warren.host_services.settings import SandboxSettings
from warren_env_worker.sandbox.containers import Engine, plan, program_of, variables
from warren_env_worker.sandbox.plan import Plan
from warren_env_worker.sandbox.process import ProcessSandbox

KILL_S = 10.0
"""How long an engine may take to kill a container."""

log = logging.getLogger(__name__)


class ContainerSandbox(ProcessSandbox):
    def __init__(self, engine: Engine, settings: SandboxSettings) -> None:
        super().__init__(engine, self._named)
        self._engine: Engine = engine
        self._settings = settings
        self._name: str | None = None

    async def start(self) -> None:
        try:
            await super().start()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        await super().close()
        name, self._name = self._name, None
        if name is not None:
            await _kill(self._engine, name)

    def _named(self) -> Plan:
        name = f"warren-sandbox-{secrets.token_hex(8)}"
        told = plan(self._engine, self._settings, name)
        self._name = name
        return told


async def _kill(engine: Engine, name: str) -> None:
    """One that has ended by itself is fine, and the engine's complaint about it is not heard."""
    try:
        async with asyncio.timeout(KILL_S):
            await _asked(program_of(engine), "kill", name)
    except (OSError, SandboxFailed) as error:  # of which a `TimeoutError` is one
        log.warning("the container %s may run on until its cell ends: %s", name, error or "timeout")


async def _asked(*command: str) -> None:
    nothing = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(
        *command, stdin=nothing, stdout=nothing, stderr=nothing, env=variables()
    )
    try:
        await process.wait()
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
