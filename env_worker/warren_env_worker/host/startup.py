"""Starts a child, and waits until its environment is imported."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Protocol

from warren.errors import ConfigurationError
from warren_broker.worker.child import Child, ChildDied
from warren_env_worker.host.call_status import SharedCallStatus
from warren_env_worker.host.environment_class.boxes import why_refused
from warren_env_worker.host.protocol import Description, Unusable, unpack_greeting
from warren_env_worker.host.session import CLOSE_GRACE_S, Session
from warren_env_worker.host_services.accepting import accepting
from warren_env_worker.output.kept import KeptOutput
from warren_env_worker.output.log import OutputLog
from warren_env_worker.output.pump import Pump, pumped
from warren_env_worker.permissions.variables import child_variables
from warren_schemas.operator_policy import OperatorPolicy

CHILD_MODULE = "warren_env_worker.host.child_main"
IMPORT_LIMIT_S = 120.0
"""How long a child may take to import its environment."""


class SpawnChild(Protocol):
    """`Child.spawn`, or what is called like it. Raises `OSError`."""

    async def __call__(
        self,
        name: str,
        module: str,
        arguments: Sequence[str] = (),
        *,
        inherited: Mapping[str, str] | None = None,
        output: int | None = None,
        descriptors: Sequence[int] = (),
    ) -> Child: ...


class StartCutShort(Exception):
    """The child was killed while it imported its environment, which says nothing about that."""


class EnvironmentUnusable(ConfigurationError):
    """The environment can't be hosted; the text says why, for a person."""


@asynccontextmanager
async def opened(
    reference: str,
    policy: OperatorPolicy,
    log: OutputLog | None = None,
    *,
    spawn_child: SpawnChild = Child.spawn,
) -> AsyncGenerator[Session]:
    """A child that has imported its environment. Raises `EnvironmentUnusable`, `StartCutShort`.

    What it prints goes to the log, or where our output goes.
    """
    variables = child_variables(policy)
    status = SharedCallStatus()
    try:
        kept = KeptOutput(log) if log is not None else None
        async with accepting() as front:
            start = partial(
                _spawned, spawn_child, reference, variables, status.path, front.fileno()
            )
            child, pump = await _printing(reference, start, kept)
            try:
                yield Session(child, status, await _greeted(child, policy), policy, kept)
            finally:
                await child.close(grace_s=CLOSE_GRACE_S)
                if kept is not None and pump is not None:
                    await asyncio.to_thread(pump.drain)
                    kept.end()
    finally:
        status.close()


async def _printing(
    reference: str, start: Callable[[int | None], Awaitable[Child]], kept: KeptOutput | None
) -> tuple[Child, Pump | None]:
    if kept is None:
        return await start(None), None
    with pumped(reference, kept.keep) as (sink, pump):
        return await start(sink), pump


async def _spawned(
    spawn_child: SpawnChild,
    reference: str,
    variables: Mapping[str, str],
    status: str,
    front: int,
    output: int | None,
) -> Child:
    arguments = (reference, status, str(front))
    try:
        return await spawn_child(
            reference,
            CHILD_MODULE,
            arguments,
            inherited=variables,
            output=output,
            descriptors=(front,),
        )
    except OSError as error:
        raise EnvironmentUnusable(f"no process can be started for {reference}: {error}") from error


async def _greeted(child: Child, policy: OperatorPolicy) -> Description:
    try:
        async with asyncio.timeout(IMPORT_LIMIT_S):
            frame = await child.receive()
    except TimeoutError:
        child.kill()
        reason = f"importing {child.name} took longer than {IMPORT_LIMIT_S:g} s"
        raise EnvironmentUnusable(reason) from None
    except ChildDied as death:
        if death.was_killed:
            raise StartCutShort(f"while it was imported, {death}") from death
        raise EnvironmentUnusable(f"while it was imported, {death}") from death
    greeting = unpack_greeting(frame)
    if isinstance(greeting, Unusable):
        raise EnvironmentUnusable(greeting.reason)
    if refused := why_refused(greeting.box, policy):
        raise EnvironmentUnusable(f"{child.name}: {refused}")
    return greeting
