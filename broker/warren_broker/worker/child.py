"""Child processes: whatever computes or may hang lives at the far end of a socket.

The supervisor's event loop stays free: it sends frames, awaits frames, and may kill the child at any
moment.

Invariants: a child that dies is an exception (`ChildDied`) with its true exit code, never a hang,
whoever else holds its end of the socket; what it had said before is received first. A supervisor
that dies takes its children with it (the kernel kills them, and their socket ends); whatever a child
has started dies with it, before its process id can be given to another, unless that has made itself
a session of its own.

A child's arguments are the first frame, as every user can read a command line, and user code of the
same user the variables that a process was started with.

The child's end is `channel`.
"""

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from warren_broker.worker.channel import LENGTH
from warren_broker.worker.child_socket import opened
from warren_broker.worker.credentials import harmless_variables
from warren_broker.worker.forking.client import ForkServer, ForkServerKilled
from warren_broker.worker.parent import FD_VARIABLE, PARENT_VARIABLE
from warren_broker.worker.process import Process
from warren_broker.worker.session_leader import Execute, Executed, Leader

MOST_BYTES = (1 << 32) - 1
"""That a frame can have."""
_LAST_MOMENT_S = 3.0


class ChildDied(Exception):
    """The child is gone. `exit_code` is negative for a signal, None if nobody could tell it."""

    def __init__(self, name: str, exit_code: int | None) -> None:
        super().__init__(name, exit_code)
        self.name = name
        self.exit_code = exit_code

    @property
    def was_killed(self) -> bool:
        """So that its end says nothing about what it did: by SIGKILL, as with the one that it was forked from."""
        return self.exit_code in (None, -signal.SIGKILL)

    def __str__(self) -> str:
        if self.exit_code is None:
            return f"{self.name} has ended"
        if self.exit_code < 0:
            return f"{self.name} was killed by {signal.Signals(-self.exit_code).name}"
        return f"{self.name} ended with exit code {self.exit_code}"


class FrameTooLong(Exception):
    """The child announces more than is taken from it; nothing can be received from it after that."""


class Child:
    """The supervisor's end. One task may send while another receives."""

    def __init__(
        self, process: Process, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.name = process.name
        self._process = process
        self._reader = reader
        self._writer = writer
        process.ended.add_done_callback(self._hang_up)

    @classmethod
    async def spawn(
        cls,
        name: str,
        module: str,
        arguments: Sequence[str] = (),
        *,
        n_threads: int = 1,
        inherited: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
        log_path: Path | None = None,
        output: int | None = None,
        descriptors: Sequence[int] = (),
        execute: Execute = Executed,
    ) -> "Child":
        """Run `python -m module` with our socket; `Channel.inherited()` is its end, and knows the
        `arguments`. The command line shows the module and the child's name, for people.

        `n_threads` bounds OpenMP and friends: spinning threads cost 5 to 25 times on few cores.
        The child's output goes to `log_path`, or to the descriptor `output`, or where ours goes.
        It gets these open `descriptors`, besides. Of our variables it inherits `inherited`, or else
        all but credentials, which no child needs. `execute` is what starts it.
        """
        variables = {
            **(harmless_variables() if inherited is None else inherited),
            **_thread_bounds(n_threads),
            **(environment or {}),
            PARENT_VARIABLE: str(os.getpid()),
        }

        def program(descriptor: int) -> Sequence[str]:
            variables[FD_VARIABLE] = str(descriptor)
            return [sys.executable, "-m", module, name]

        child = await cls.launch(
            name,
            program,
            variables=variables,
            descriptors=descriptors,
            log_path=log_path,
            output=output,
            execute=execute,
        )
        child._write(json.dumps(list(arguments)).encode())
        return child

    @classmethod
    async def fork(
        cls,
        server: ForkServer,
        name: str,
        module: str,
        arguments: Sequence[str] = (),
        *,
        n_threads: int = 1,
        environment: Mapping[str, str] | None = None,
        log_path: Path | None = None,
    ) -> "Child":
        """The same as `spawn`, by a fork of what the server has imported, and with its environment.

        Libraries have read those as they were imported. Raises `OSError`; `ChildDied` where the server is killed.
        """
        variables = {**_thread_bounds(n_threads), **(environment or {})}

        async def fork(descriptor: int) -> Leader:
            if log_path is None:
                return await server.fork(module, name, descriptor, variables=variables)
            with log_path.open("ab") as log:
                return await server.fork(
                    module, name, descriptor, output=log.fileno(), variables=variables
                )

        try:
            child = await cls._start(name, fork)
        except ForkServerKilled as error:
            raise ChildDied(name, -signal.SIGKILL) from error
        child._write(json.dumps(list(arguments)).encode())
        return child

    @classmethod
    async def launch(
        cls,
        name: str,
        program: Callable[[int], Sequence[str]],
        *,
        variables: Mapping[str, str],
        descriptors: Sequence[int] = (),
        log_path: Path | None = None,
        output: int | None = None,
        execute: Execute = Executed,
    ) -> "Child":
        """Run what `program` says of the descriptor of its end of our socket, with these variables and descriptors alone."""

        async def start(descriptor: int) -> Leader:
            return execute(
                program(descriptor),
                variables=variables,
                descriptors=(descriptor, *descriptors),
                log_path=log_path,
                output=output,
            )

        return await cls._start(name, start)

    @classmethod
    async def _start(cls, name: str, start: Callable[[int], Awaitable[Leader]]) -> "Child":
        """`start` gets the descriptor of the child's end of our socket, which is closed here afterwards."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                process = Process(name, await start(theirs.fileno()))
            except BaseException:
                ours.close()
                raise
        try:
            reader, writer = await opened(ours)
        except asyncio.CancelledError:
            process.reap()
            raise
        return cls(process, reader, writer)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """False once it has ended, also when nobody has talked to it since; it stays unreaped."""
        return self._process.is_alive

    async def send(self, frame: bytes) -> None:
        """Hand over a frame; waits while the child is far behind. Raises `ChildDied`."""
        try:
            self._write(frame)
            await self._writer.drain()
        except (ConnectionError, RuntimeError) as error:
            raise await self._death() from error
        if self._writer.is_closing():  # it died while we waited
            raise await self._death()

    def _write(self, frame: bytes) -> None:
        """In one piece: the child would be woken by its length alone."""
        self._writer.writelines((LENGTH.pack(len(frame)), frame))

    async def receive(self, *, most_bytes: int = MOST_BYTES) -> bytes:
        """The next frame, of a child that is trusted unless `most_bytes` says how much is taken from it.

        Raises `ChildDied`, `FrameTooLong`.
        """
        try:
            (n_bytes,) = LENGTH.unpack(await self._reader.readexactly(LENGTH.size))
            if n_bytes > most_bytes:
                raise FrameTooLong(f"{self.name} sends {n_bytes} bytes at once")
            return await self._reader.readexactly(n_bytes)
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise await self._death() from error

    def kill(self) -> None:
        """End it now, and whatever it has started."""
        self._process.kill()

    async def close(self, *, grace_s: float = 3.0) -> None:
        """End the connection; kill what does not leave within `grace_s`."""
        self._writer.close()
        await self._process.end(grace_s)
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()

    async def _death(self) -> ChildDied:
        """The connection has ended: a child that is leaving gets the time to say its exit code."""
        self._writer.close()
        return ChildDied(self.name, await self._process.end(_LAST_MOMENT_S))

    def _hang_up(self, _ended: "asyncio.Future[None]") -> None:
        """Others may still hold its end: nobody is to wait for those."""
        self._writer.transport.abort()


def _thread_bounds(n_threads: int) -> dict[str, str]:
    return {
        "OMP_NUM_THREADS": str(n_threads),
        "MKL_NUM_THREADS": str(n_threads),
        "TOKENIZERS_PARALLELISM": "false",
    }
