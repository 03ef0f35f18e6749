"""One episode's process, asked in JSON lines over a connection of its own.

Invariants: nothing is asked before the process has spoken, so that a refusal is heard (`programs/fork_server`).
Whoever stops waiting for an answer, by cancellation or an error, closes the connection, and with it ends the process:
no answer is ever taken for that of another request.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

import orjson

from warren_env_worker.foreign.channel import Channel

MAX_LINE_BYTES = 4 << 20


class ProcessLost(Exception):
    """The process is gone, with what it held."""


class PackageProcess:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._has_begun = False
        self.is_asking = False
        """Nothing else can be asked until the answer is there."""

    @classmethod
    async def opened(cls, channel: Channel) -> "PackageProcess":
        """Raises `ProcessLost` where no fork server takes it, and `OSError` where this process can't connect: that says
        nothing of the one that it asks."""
        try:
            connection = await channel.connection()
        except ConnectionError as error:
            raise ProcessLost(str(error)) from error
        return cls(*await asyncio.open_unix_connection(sock=connection, limit=MAX_LINE_BYTES))

    async def ask(self, request: Mapping[str, object]) -> dict[str, Any]:
        """Raises `ProcessLost`."""
        self.is_asking, is_answered = True, False
        try:
            answer = {} if self._has_begun else await self._next_line()
            self._has_begun = True
            if "error" not in answer:
                self._writer.write(orjson.dumps(request) + b"\n")
                answer = await self._next_line()
            is_answered = True
            return answer
        except (OSError, ValueError) as error:
            raise ProcessLost("the process of its package died") from error
        finally:
            self.is_asking = False
            if not is_answered:
                self.close()

    async def _next_line(self) -> dict[str, Any]:
        return orjson.loads(await self._reader.readline())

    def close(self) -> None:
        self._writer.close()
