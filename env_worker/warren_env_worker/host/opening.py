"""From nothing to a session: a child is started, imports its environment and greets."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from warren.errors import ConfigurationError
from warren_broker.worker.child import Child, ChildDied
from warren_env_worker.host.cell import SharedCell
from warren_env_worker.host.protocol import Description, Unusable, unpack_greeting
from warren_env_worker.host.session import Session

CHILD_MODULE = "warren_env_worker.host.child"
IMPORT_LIMIT_S = 120.0
"""How long a child may take to import its environment."""
CLOSE_GRACE_S = 1.0
"""How long a child may take to leave before it is killed."""


class EnvironmentUnusable(ConfigurationError):
    """The environment can't be hosted; the text says why, for a person."""


@asynccontextmanager
async def opened(reference: str) -> AsyncGenerator[Session]:
    """A child that has imported its environment. Raises `EnvironmentUnusable`."""
    cell = SharedCell()
    try:
        child = await _spawned(reference, cell)
        try:
            yield Session(child, cell, await _greeted(child))
        finally:
            await child.close(grace_s=CLOSE_GRACE_S)
    finally:
        cell.close()


async def _spawned(reference: str, cell: SharedCell) -> Child:
    try:
        return await Child.spawn(reference, CHILD_MODULE, (reference, cell.path))
    except OSError as error:
        raise EnvironmentUnusable(f"no process can be started for {reference}: {error}") from error


async def _greeted(child: Child) -> Description:
    try:
        async with asyncio.timeout(IMPORT_LIMIT_S):
            frame = await child.receive()
    except TimeoutError:
        child.kill()
        reason = f"importing {child.name} took longer than {IMPORT_LIMIT_S:g} s"
        raise EnvironmentUnusable(reason) from None
    except ChildDied as death:
        raise EnvironmentUnusable(f"while it was imported, {death}") from death
    greeting = unpack_greeting(frame)
    if isinstance(greeting, Unusable):
        raise EnvironmentUnusable(greeting.reason)
    return greeting
