"""Child processes: whatever computes or may hang lives at the far end of a socket.

The supervisor's event loop stays free: it sends frames, awaits frames, and may kill the child at any
moment.

Invariants: a child that dies is an exception (`ChildDied`) with its true exit code, never a hang; a
supervisor that dies takes its children with it (the kernel kills them, and their socket ends);
whatever a child has started dies with it, before its process id can be given to another.

A frame is a u32 little-endian length and that many bytes; what they mean is up to the two ends.
"""

import asyncio
import contextlib
import ctypes
import logging
import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

_LENGTH = struct.Struct("<I")
_FD_VARIABLE = "WARREN_CHILD_FD"
_PARENT_VARIABLE = "WARREN_PARENT_PID"
_PR_SET_PDEATHSIG = 1
_READ_AHEAD_BYTES = 1024 * 1024
_WRITE_HIGH_WATER_BYTES = 4 * 1024 * 1024
_LAST_MOMENT_S = 3.0

log = logging.getLogger(__name__)


class ChildDied(Exception):
    """The child is gone. `exit_code` is negative for a signal, None if not known yet."""

    def __init__(self, name: str, exit_code: int | None) -> None:
        super().__init__(name, exit_code)
        self.name = name
        self.exit_code = exit_code

    def __str__(self) -> str:
        if self.exit_code is not None and self.exit_code < 0:
            return f"{self.name} was killed by {signal.Signals(-self.exit_code).name}"
        return f"{self.name} ended with exit code {self.exit_code}"


class Child:
    """The supervisor's end. One task may send while another receives."""

    def __init__(
        self,
        name: str,
        process: "subprocess.Popen[bytes]",
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self.name = name
        self._process = process
        self._reader = reader
        self._writer = writer

    @classmethod
    async def spawn(
        cls,
        name: str,
        module: str,
        arguments: Sequence[str] = (),
        *,
        n_threads: int = 1,
        environment: Mapping[str, str] | None = None,
        log_path: Path | None = None,
    ) -> "Child":
        """Run `python -m module arguments` with our socket; `Channel.inherited()` is its end.

        `n_threads` bounds OpenMP and friends: spinning threads cost 5 to 25 times on few cores.
        The child's output goes to `log_path`, or where ours goes.
        """
        variables = {
            **os.environ,
            "OMP_NUM_THREADS": str(n_threads),
            "MKL_NUM_THREADS": str(n_threads),
            "TOKENIZERS_PARALLELISM": "false",
            **(environment or {}),
            _PARENT_VARIABLE: str(os.getpid()),
        }

        def program(descriptor: int) -> Sequence[str]:
            variables[_FD_VARIABLE] = str(descriptor)
            return [sys.executable, "-m", module, *arguments]

        return await cls.launch(name, program, variables=variables, log_path=log_path)

    @classmethod
    async def launch(
        cls,
        name: str,
        program: Callable[[int], Sequence[str]],
        *,
        variables: Mapping[str, str],
        descriptors: Sequence[int] = (),
        log_path: Path | None = None,
    ) -> "Child":
        """Run what `program` says; it is told the descriptor of the child's end of our socket.

        The child gets these environment variables and open descriptors, and no others.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                # From the loop's own thread: the kernel kills a child when its parent *thread* ends.
                command = program(theirs.fileno())
                process = _start(command, variables, (theirs.fileno(), *descriptors), log_path)
            except OSError:
                ours.close()
                raise
        try:
            reader, writer = await asyncio.open_connection(sock=ours, limit=_READ_AHEAD_BYTES)
        except asyncio.CancelledError:
            process.kill()
            process.wait()
            raise
        writer.transport.set_write_buffer_limits(high=_WRITE_HIGH_WATER_BYTES)
        return cls(name, process, reader, writer)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """False once it has ended, also when nobody has talked to it since; it stays unreaped."""
        if self._process.returncode is not None:
            return False
        states = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, self._process.pid, states) is None

    async def send(self, frame: bytes) -> None:
        """Hand over a frame; waits while the child is far behind. Raises `ChildDied`."""
        try:
            self._writer.write(_LENGTH.pack(len(frame)))
            self._writer.write(frame)
            await self._writer.drain()
        except (ConnectionError, RuntimeError) as error:
            raise await self._death() from error

    async def receive(self) -> bytes:
        """The next frame. Raises `ChildDied`."""
        try:
            (n_bytes,) = _LENGTH.unpack(await self._reader.readexactly(_LENGTH.size))
            return await self._reader.readexactly(n_bytes)
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise await self._death() from error

    def kill(self) -> None:
        """End it now, and its whole process group with it."""
        if self._process.returncode is None:
            os.killpg(self._process.pid, signal.SIGKILL)

    async def close(self, *, grace_s: float = 3.0) -> None:
        """End the conversation; kill what does not leave within `grace_s`."""
        self._writer.close()
        await self._end(grace_s)
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()

    async def _death(self) -> ChildDied:
        """The conversation has ended: a child that is leaving gets the time to say its exit code."""
        self._writer.close()
        return ChildDied(self.name, await self._end(_LAST_MOMENT_S))

    async def _end(self, grace_s: float) -> int:
        """Wait, kill what is left, and reap; cancelled, it does so at once. The exit code."""
        try:
            await self._leaves_within(grace_s)
            self.kill()
            await self._has_exited()
        finally:
            self.kill()
            self._process.wait()
        return self._process.returncode

    async def _leaves_within(self, grace_s: float) -> None:
        try:
            async with asyncio.timeout(grace_s):
                await self._has_exited()
        except TimeoutError:
            log.warning("%s does not leave and is killed", self.name)

    async def _has_exited(self) -> None:
        """Return when the child is dead, and leave it unreaped: its id stays its own until `wait`."""
        if self._process.returncode is not None:
            return
        loop = asyncio.get_running_loop()
        exited = asyncio.Event()
        descriptor = os.pidfd_open(self._process.pid)
        loop.add_reader(descriptor, exited.set)
        try:
            await exited.wait()
        finally:
            loop.remove_reader(descriptor)
            os.close(descriptor)


def _start(
    command: Sequence[str],
    variables: Mapping[str, str],
    descriptors: Sequence[int],
    log_path: Path | None,
) -> "subprocess.Popen[bytes]":
    with contextlib.ExitStack() as stack:
        output = stack.enter_context(log_path.open("ab")) if log_path else None
        return subprocess.Popen(
            command,
            env=variables,
            pass_fds=descriptors,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )


class Channel:
    """The child's end: blocking, for one thread."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._file = connection.makefile("rb")

    @classmethod
    def inherited(cls) -> "Channel":
        """The channel to the supervisor that spawned this process; die when it dies."""
        parent = int(os.environ.pop(_PARENT_VARIABLE))
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the supervisor's to handle
        if os.getppid() != parent:
            os._exit(1)
        return cls(socket.socket(fileno=int(os.environ.pop(_FD_VARIABLE))))

    def receive(self) -> bytes | None:
        """The next frame; None when the supervisor has closed the conversation."""
        head = self._file.read(_LENGTH.size)
        if len(head) < _LENGTH.size:
            return None
        (n_bytes,) = _LENGTH.unpack(head)
        body = self._file.read(n_bytes)
        return body if len(body) == n_bytes else None

    def send(self, frame: bytes) -> None:
        self._socket.sendall(_LENGTH.pack(len(frame)) + frame)

    def detach(self) -> socket.socket:
        """The bare socket, for a loop of one's own; only before anything was received."""
        return self._socket

    def close(self) -> None:
        """Let go of it, in a process that was forked and is not the one to talk."""
        self._file.close()
        self._socket.close()
