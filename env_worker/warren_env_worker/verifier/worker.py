"""The process that keeps a checker: `python -m warren_env_worker.verifier.worker`.

It imports the algebra once and never does any itself: comparisons run in a fork of it, which the
kernel kills when one has used up its processor time, and which is forked again within milliseconds.
Processor time, because a machine that is busy with other things must not change a verdict.

A reply is `{"verdict": …}`; with a `reason` beside it where the comparison brought the checker down, which
is then for the expressions to answer for; `{"reason": …}` alone where they are not to blame.

Invariants: every request is answered within `WALL_S`, whatever the expressions are; a checker never
outlives its parent; one that has grown old gives way to a fresh one. A checker that dies of what we did
not set for it (a crash, the kernel's want of memory, a person's signal) is asked once more in a fresh one: who
dies twice of the same expressions dies of them.
"""

import contextlib
import ctypes
import gc
import os
import resource
import signal
import socket
import time
from typing import NoReturn

import orjson

from warren.host_services.verdict import Verdict
from warren_broker.worker.channel import Channel
from warren_env_worker.verifier.checking import Compare, make_compare

CPU_S = 1.5
"""Processor time that one comparison may take."""
WALL_S = 60.0
"""Time that it may take at all, on a machine that is busy with other things."""
MAX_MEMORY_BYTES = 2 << 30
MAX_CHECKS = 2000
"""Of one checker: sympy's caches grow."""
MAX_REQUEST_BYTES = 65_536
MAX_REPLY_BYTES = 4096
OUT_OF_MEMORY = 3
"""Exit code of a checker that has used up its memory."""
_PR_SET_PDEATHSIG = 1


class Checker:
    """A forked process that compares; started when it is needed."""

    def __init__(self, compare: Compare, channel: Channel) -> None:
        self._compare = compare
        self._channel = channel
        self._pid = 0
        self._line: socket.socket | None = None
        self._n_checks = 0

    def ask(self, request: bytes) -> bytes:
        """The reply to `[gold, answer]`."""
        due_s = time.monotonic() + WALL_S
        reply = self._ask(request, due_s) or self._ask(request, due_s)
        return reply or _brought_down("the process that compared crashed, twice")

    def _ask(self, request: bytes, due_s: float) -> bytes:
        """Empty where the checker died and we don't know of what."""
        line = self._fresh_line()
        self._n_checks += 1
        try:
            line.settimeout(max(due_s - time.monotonic(), 0.001))
            line.sendall(request)
            reply = line.recv(MAX_REPLY_BYTES)
        except TimeoutError:
            self._end()
            return orjson.dumps({"reason": f"the comparison had not ended after {WALL_S:g} s"})
        except ConnectionError:
            reply = b""
        return reply or _obituary(self._end())

    def _fresh_line(self) -> socket.socket:
        if self._line is None or self._n_checks >= MAX_CHECKS or self._is_dead():
            self._end()
            self._line = self._fork()
            self._n_checks = 0
        return self._line

    def _is_dead(self) -> bool:
        """It ended while it was idle; it stays unreaped."""
        states = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, self._pid, states) is not None

    def _fork(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        parent = os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            ours.close()
            self._channel.close()
            _check_until_killed(self._compare, theirs, parent)
        theirs.close()
        return ours

    def _end(self) -> int:
        """Kill it; its exit code if it was dead before, negative for a signal."""
        if self._line is None:
            return 0
        self._line.close()
        self._line = None
        # Its end of the line is closed before it is dead; a process that is alive gets no mercy.
        os.kill(self._pid, signal.SIGKILL)
        _, status = os.waitpid(self._pid, 0)
        return os.waitstatus_to_exitcode(status)


def _obituary(code: int) -> bytes:
    if code == -signal.SIGPROF:
        return _brought_down(f"the comparison took more than {CPU_S:g} s of processor time")
    if code == OUT_OF_MEMORY:
        return _brought_down(
            f"the comparison took more than {MAX_MEMORY_BYTES >> 20} MiB of memory"
        )
    return b""


def _check_until_killed(compare: Compare, line: socket.socket, parent: int) -> NoReturn:
    with contextlib.suppress(BaseException):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() == parent:
            resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
            while request := line.recv(MAX_REQUEST_BYTES):
                signal.setitimer(signal.ITIMER_PROF, CPU_S)  # its signal ends the process
                reply = _reply(compare, request)
                signal.setitimer(signal.ITIMER_PROF, 0)
                line.sendall(reply)
    os._exit(1)


def _reply(compare: Compare, request: bytes) -> bytes:
    gold, answer = orjson.loads(request)
    try:
        return orjson.dumps({"verdict": compare(gold, answer)})
    except MemoryError:  # there may be too little left to say so
        os._exit(OUT_OF_MEMORY)
    except Exception as error:  # noqa: BLE001 - becomes a verdict, with a reason
        reason = f"the comparison failed: {type(error).__name__}: {error}"[:500]
        return _brought_down(reason, Verdict.UNPARSEABLE)


def _brought_down(reason: str, verdict: Verdict = Verdict.TIMED_OUT) -> bytes:
    """What the answer gets, if it is to blame."""
    readable = reason.encode(errors="replace").decode()
    return orjson.dumps({"verdict": verdict, "reason": readable})


def main() -> None:
    channel = Channel.inherited()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    checker = Checker(make_compare(), channel)
    gc.freeze()
    with contextlib.suppress(ConnectionError):  # the supervisor has gone, maybe while we began
        channel.send(b"ready")
        while (request := channel.receive()) is not None:
            channel.send(checker.ask(request))


if __name__ == "__main__":
    main()
