"""The supervisor's end: what is asked on a connection is done, and what it has opened ends with it.

The first question says what the connection is for: one comparison, or a session of a sandbox whose cells follow.
Invariants: a connection that ends, whenever that is, ends its session and the cell in it; what goes wrong is answered as
a sentence with its kind, and the connection ends.
"""

import asyncio
import socket
from collections.abc import Coroutine
from typing import Any, TypeVar

from pydantic import ValidationError

from warren.environment import ConfigError
from warren.host_services.cells import SandboxFailed
from warren.host_services.settings import SandboxSettings
from warren.host_services.verdict import AnswerForm, VerificationFailed
from warren_env_worker.host_services.frames import Fields, heard, packed
from warren_env_worker.permissions.permissions import Permissions
from warren_env_worker.sandbox.opening import Sandboxes
from warren_env_worker.sandbox.port import Sandbox
from warren_env_worker.sandbox.spares import Spares
from warren_env_worker.verifier.verdict import GoldUnusable
from warren_env_worker.verifier.verifier import compare, verify
from warren_schemas.text.explain import explain

MAX_KINDS = 64
"""Of sandboxes whose tier is remembered."""
ResultT = TypeVar("ResultT")


class _Gone(Exception):
    """Who asked has hung up."""


class ServicesServer:
    """For the background loop."""

    def __init__(self, n_spares: int) -> None:
        """So many started sandboxes wait for whoever asks next."""
        self._spares = Spares(n_spares)
        self._kinds: dict[tuple[str, Permissions], Sandboxes] = {}
        self._conversations: set[asyncio.Task[object]] = set()
        """An event loop alone keeps no task that waits for a stream."""

    async def attend(self, connection: socket.socket) -> None:
        """Answer what is asked there, until the other end has gone; everything that it opened is closed then."""
        task = asyncio.current_task()
        assert task is not None
        self._conversations.add(task)
        task.add_done_callback(self._conversations.discard)
        reader, writer = await asyncio.open_unix_connection(sock=connection)
        try:
            asked = await heard(reader)
            if asked is not None:
                await self._served(asked, reader, writer)
        except (_Gone, ConnectionError):
            pass
        except _REASONS as error:
            writer.write(packed({"failed": _readable(error), "kind": _kind(error)}))
        finally:
            writer.close()

    async def close(self) -> None:
        """End the sandboxes that wait, and what was opened by those who asked and have gone."""
        await asyncio.gather(self._spares.close(), *self._conversations, return_exceptions=True)

    async def _served(
        self, asked: Fields, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if "gold" in asked:
            verdict = await _while_heard(reader, _compared(asked))
            writer.write(packed({"verdict": verdict}))
            return
        sandboxes = self._sandboxes(asked)
        sandbox = await _while_heard(reader, sandboxes.open())
        try:
            await _cells(sandboxes, sandbox, reader, writer)
        finally:
            await sandbox.close()

    def _sandboxes(self, asked: Fields) -> Sandboxes:
        """Raises `ConfigError`, `ValidationError`."""
        settings = SandboxSettings.model_validate(asked["settings"])
        key = (
            settings.model_dump_json(exclude_unset=True),
            Permissions.unpacked(asked["permissions"]),
        )
        if key not in self._kinds:
            if len(self._kinds) >= MAX_KINDS:
                self._kinds.pop(next(iter(self._kinds)))
            self._kinds[key] = Sandboxes(settings, key[1], spares=self._spares)
        return self._kinds[key]


async def _compared(asked: Fields) -> str:
    gold, answer, form = asked["gold"], asked["answer"], asked["form"]
    return await (compare(gold, answer) if form is None else verify(gold, answer, AnswerForm(form)))


async def _cells(
    sandboxes: Sandboxes,
    sandbox: Sandbox,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    most_s = sandboxes.settings.limits.cell_s
    writer.write(packed({"tier": sandbox.tier}))
    while (asked := await heard(reader)) is not None:
        limit_s = min(asked["limit_s"] or most_s, most_s)
        result = await _while_heard(reader, sandboxes.run(sandbox, asked["code"], limit_s))
        output = result.output.encode(errors="replace").decode()
        writer.write(packed({"status": result.status, "output": output}))


async def _while_heard(reader: asyncio.StreamReader, work: Coroutine[Any, Any, ResultT]) -> ResultT:
    """What comes of the work, which is given up once who asked has gone. Raises `_Gone`."""
    doing = asyncio.create_task(work, name="host service")
    listening = asyncio.create_task(reader.read(1), name="end of the episode")
    try:
        await asyncio.wait((doing, listening), return_when=asyncio.FIRST_COMPLETED)
        if doing.done():
            return doing.result()
        raise _Gone
    finally:
        for task in (doing, listening):
            task.cancel()
        await asyncio.gather(doing, listening, return_exceptions=True)


_REASONS = (ConfigError, ValidationError, SandboxFailed, VerificationFailed)


def _kind(error: Exception) -> str:
    match error:
        case ConfigError() | ValidationError():
            return "config"
        case GoldUnusable():
            return "task"
        case VerificationFailed():
            return "verification"
        case _:
            return "sandbox"


def _readable(error: Exception) -> str:
    text = "; ".join(explain(error)) if isinstance(error, ValidationError) else str(error)
    return text.encode(errors="replace").decode()
