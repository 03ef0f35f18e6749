"""Scores that foreign code makes of a policy's answer, within limits of processor time and memory.

Invariant: what an answer brings down is told as such (`ScoringEnded`) and never takes the environment with it; where
the machine alone was too slow, nobody is to blame, and the episode fails.

The score is made in a fork of the caller, which the kernel ends when it has used up its processor time. Processor
time, because a machine that is busy with other things must not change a reward.
"""

import contextlib
import ctypes
import os
import resource
import select
import signal
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

CPU_S = 5.0
"""Processor time that one score may take."""
WALL_S = 50.0
"""Time that it may take at all, on a machine that is busy with other things."""
MEMORY_BYTES = 1 << 30
"""What it may take beyond what the caller has."""
MAX_REASON_BYTES = 500
_OUT_OF_MEMORY = 3
_DONE, _RAISED = b"s", b"e"
_SCORE = struct.Struct("<d")
_PR_SET_PDEATHSIG = 1


class ScoringEnded(Exception):
    """The score took too much, or its code stumbled over what it was given."""

    def __init__(self, reason: str, *, is_over_limit: bool) -> None:
        super().__init__(reason)
        self.is_over_limit = is_over_limit
        """Of time or memory."""


class MachineTooSlow(Exception):
    """The score was not there in time, though it had not used up its processor time."""


def bounded_score(
    score: Callable[[], float], *, cpu_s: float = CPU_S, wall_s: float = WALL_S
) -> float:
    """What `score` returns. Raises `ScoringEnded`, `MachineTooSlow`."""
    ours, theirs = os.pipe()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        _score_and_exit(score, theirs, parent, cpu_s)
    os.close(theirs)
    try:
        said, is_late = _read(ours, time.monotonic() + wall_s)
    finally:
        os.close(ours)
        code = _end(pid)
    if said[:1] == _DONE and len(said) == 1 + _SCORE.size:
        return float(_SCORE.unpack(said[1:])[0])
    if said[:1] == _RAISED:
        raise ScoringEnded(said[1:].decode(errors="replace"), is_over_limit=False)
    if is_late:
        raise MachineTooSlow(f"the score was not there after {wall_s:g} s")
    raise ScoringEnded(_obituary(code, cpu_s), is_over_limit=True)


def _read(line: int, due_s: float) -> tuple[bytes, bool]:
    """All that comes until the other side is closed, and whether it was not closed in time."""
    poll = select.poll()
    poll.register(line, select.POLLIN | select.POLLHUP)
    said = b""
    while poll.poll(max(due_s - time.monotonic(), 0.0) * 1000):
        part = os.read(line, 4096)
        if not part:
            return said, False
        said += part
    return said, True


def _end(pid: int) -> int:
    """It is over, or will be now; its exit code, negative for a signal."""
    os.kill(pid, signal.SIGKILL)  # who is ending already keeps the code of that end
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)


def _obituary(code: int, cpu_s: float) -> str:
    if code == -signal.SIGPROF:
        return f"it took more than {cpu_s:g} s of processor time"
    if code == _OUT_OF_MEMORY:
        return f"it took more than {MEMORY_BYTES >> 20} MiB of memory"
    return f"its process ended with {code}"


def _score_and_exit(score: Callable[[], float], line: int, parent: int, cpu_s: float) -> NoReturn:
    with contextlib.suppress(BaseException):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() == parent:
            _limit(cpu_s)
            os.write(line, _said(score))
            os._exit(0)
    os._exit(1)


def _limit(cpu_s: float) -> None:
    has_bytes = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = has_bytes + MEMORY_BYTES
    resource.setrlimit(
        resource.RLIMIT_AS, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard)
    )
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGPROF})
    signal.setitimer(signal.ITIMER_PROF, cpu_s)  # its signal ends the process


def _said(score: Callable[[], float]) -> bytes:
    try:
        return _DONE + _SCORE.pack(score())
    except MemoryError:  # there may be too little left to say so
        os._exit(_OUT_OF_MEMORY)
    except Exception as error:  # noqa: BLE001 - foreign code; becomes a reason
        return _RAISED + f"{type(error).__name__}: {error}".encode()[:MAX_REASON_BYTES]
