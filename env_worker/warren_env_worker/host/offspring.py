"""One episode's process, forked from the nursery that has everything imported.

It shares nothing with its siblings but memory pages that nobody writes: globals, the global random
state, the working folder, threads and leaks are its own and end with it.

Invariant: the forked process never returns into the nursery's code; it ends in `os._exit`.
"""

import contextlib
import ctypes
import os
import random
import resource
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from warren_broker.worker.child import Channel
from warren_env_worker.host.cell import Cell, SharedCell
from warren_env_worker.host.protocol import Call, Start
from warren_env_worker.output.episode import EpisodeOutput

SEND_S = 5.0
"""How long a child that waits for its next call may take to read it."""
MAX_ANSWER_BYTES = 64 * 1024 * 1024
MAX_FILES = 65_536
_PR_SET_PDEATHSIG = 1
_MIB = 1024 * 1024
_STDOUT, _STDERR = 1, 2

Serve = Callable[[Channel, Cell], None]
"""Takes calls from the channel until it ends."""


class Offspring:
    """The nursery's side of one episode's process."""

    def __init__(
        self, slot: int, pid: int, talk: socket.socket, output: int, cell: Cell, tag: str
    ) -> None:
        self.slot = slot
        self.pid = pid
        self.talk = talk
        self.output = output
        self.exit = os.pidfd_open(pid)
        self.cell = cell
        self.call: Call | None = None
        """Under way, and not answered."""
        self.asked_s = 0.0
        self.sentence: str | None = None
        """Why it was killed for being late."""
        self._received = bytearray()
        self._printed = EpisodeOutput(output, tag)

    def ask(self, call: Call, frame: bytes) -> None:
        """Raises `OSError` if it does not read."""
        self.call, self.asked_s = call, time.monotonic()
        self.talk.settimeout(SEND_S)
        self.talk.sendall(len(frame).to_bytes(4, "little") + frame)

    def hear(self) -> list[bytes]:
        """The frames that are there. Raises `OSError` when the conversation is over."""
        self.talk.setblocking(False)
        try:
            received = self.talk.recv(_MIB)
        except BlockingIOError:
            return []
        if not received:
            raise ConnectionResetError("it hung up")
        self._received += received
        return list(self._frames())

    def _frames(self) -> list[bytes]:
        frames: list[bytes] = []
        while len(self._received) >= 4:
            n_bytes = int.from_bytes(self._received[:4], "little")
            if n_bytes > MAX_ANSWER_BYTES:
                raise ConnectionAbortedError("it sent what is no answer")
            if len(self._received) < 4 + n_bytes:
                break
            frames.append(bytes(self._received[4 : 4 + n_bytes]))
            del self._received[: 4 + n_bytes]
        return frames

    def pass_output_on(self) -> bool:
        """What it printed, to the log, up to a limit; False when nothing more will come."""
        return self._printed.pass_on()

    def where(self, root: str) -> str:
        """Where it waits, as the end of a sentence; blocks for a moment."""
        return self._printed.where(self.pid, root)

    def kill(self) -> None:
        """It, and whatever it has started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def bury(self) -> str:
        """Reap it and let go of everything; how it ended."""
        self.kill()
        _, status = os.waitpid(self.pid, 0)
        self._printed.end()
        self.talk.close()
        os.close(self.output)
        os.close(self.exit)
        self.cell.close()
        code = os.waitstatus_to_exitcode(status)
        if code < 0:
            return f"its process was killed by {signal.Signals(-code).name}"
        return f"its process ended with exit code {code}"


def fork(slot: int, start: Start, memory_mb: int | None, serve: Serve) -> Offspring:
    """A process for this episode. Raises `OSError` when none can be had."""
    with contextlib.ExitStack() as theirs, contextlib.ExitStack() as ours:
        cell = SharedCell()
        ours.callback(cell.close)
        talk, their_talk = socket.socketpair()
        ours.callback(talk.close)
        theirs.callback(their_talk.close)
        output, their_output = os.pipe()
        ours.callback(os.close, output)
        theirs.callback(os.close, their_output)
        pid = os.fork()
        if pid == 0:
            talk.close()
            os.close(output)
            _live(their_talk, their_output, cell, start, memory_mb, serve)
        ours.callback(_put_down, pid)
        with contextlib.suppress(OSError):  # the child does the same; whoever comes first
            os.setpgid(pid, pid)
        offspring = Offspring(slot, pid, talk, output, cell, start.tag)
        ours.pop_all()  # they are the offspring's from now on
        return offspring


def _put_down(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def make_room_for_files() -> None:
    """Let this process open many: each episode's takes five, and the usual limit is 1,024."""
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = MAX_FILES if most == resource.RLIM_INFINITY else min(most, MAX_FILES)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(limit, allowed), most))


def _live(
    talk: socket.socket, output: int, cell: Cell, start: Start, memory_mb: int | None, serve: Serve
) -> None:
    """The forked process, from its first line to its last."""
    code = 1
    try:
        with contextlib.suppress(OSError):
            os.setpgid(0, 0)
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        os.dup2(output, _STDOUT)
        os.dup2(output, _STDERR)
        _seed(start)
        if memory_mb is not None:
            _limit_memory(memory_mb)
        serve(Channel(talk), cell)
        code = 0
    except BaseException:  # noqa: BLE001 - nothing may unwind into the nursery
        traceback.print_exc()
    finally:
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _seed(start: Start) -> None:
    """The global random states, so that code that uses them repeats itself as well."""
    random.seed(f"{start.seed}/{start.split}/{start.index}")
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(random.getrandbits(32))


def _limit_memory(memory_mb: int) -> None:
    """Let the process take so much memory of its own, beyond what it was forked with."""
    status = Path("/proc/self/status").read_text()
    has_kib = int(status.partition("VmData:")[2].split()[0])
    limit = has_kib * 1024 + memory_mb * _MIB
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
