"""Runs a program and leaves nothing of it behind: `python subreaper.py COMMAND…`; it imports nothing of Warren's.

Its exit code is the program's, 128 and the signal's number if a signal ended that, or 127 if there is none.

Invariants: when it ends, whatever the program has started is dead, at any depth and in any session. It ends when the
program does, when its standard input ends, and when whoever started it dies: a worker that is killed leaves no
program behind. On other systems than Linux only the program's process group is known.
"""

import ctypes
import os
import select
import signal
import sys
from contextlib import suppress
from types import FrameType
from typing import NoReturn

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
STDIN = 0
NO_PROGRAM = 127
BY_SIGNAL = 128


def main() -> None:
    wakes = wakes_by(signal.SIGCHLD, signal.SIGTERM)
    process_control(PR_SET_PDEATHSIG, signal.SIGTERM)
    process_control(PR_SET_CHILD_SUBREAPER, 1)
    program = os.fork()
    if program == 0:
        become(sys.argv[1:])
    code = exit_code(program, wakes)
    end_group(program)
    end_children()
    os._exit(code)


def wakes_by(*signals: signal.Signals) -> int:
    """A pipe to read: one byte, its number, for each of these signals that came."""
    wakes, wake = os.pipe()
    os.set_blocking(wakes, False)
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    for number in signals:
        signal.signal(number, woken)
    return wakes


def woken(number: int, frame: FrameType | None) -> None:
    """A signal that is read from the pipe needs a handler, or it is ignored."""


def become(command: list[str]) -> NoReturn:
    """The program, in a session of its own; it dies if this process is killed."""
    try:
        os.setsid()
        process_control(PR_SET_PDEATHSIG, signal.SIGKILL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), STDIN)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them
            signal.signal(number, signal.SIG_DFL)
        os.execvp(command[0], command)
    except OSError as error:
        print(f"{command[0]} can't be started: {error.strerror}", flush=True)
    finally:
        os._exit(NO_PROGRAM)


def exit_code(program: int, wakes: int) -> int:
    """Of the program, once it has ended; or of one that nobody waits for."""
    while True:
        readable, _, _ = select.select([STDIN, wakes], [], [])
        signals = os.read(wakes, 4096) if wakes in readable else b""
        while (ended := reaped()) is not None:
            if ended[0] == program:
                code = os.waitstatus_to_exitcode(ended[1])
                return code if code >= 0 else BY_SIGNAL - code
        if STDIN in readable or signal.SIGTERM in signals:
            return BY_SIGNAL + signal.SIGKILL


def reaped() -> tuple[int, int] | None:
    """A child that has ended, and how."""
    try:
        pid, status = os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return None
    return (pid, status) if pid else None


def end_group(program: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(program, signal.SIGKILL)


def end_children() -> None:
    """Who dies leaves its own children to this process: until there are none."""
    while children := own_children():
        for pid in children:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)


def own_children() -> list[int]:
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as listed:
            return [int(pid) for pid in listed.read().split()]
    except OSError:
        return []


def process_control(what: int, value: int) -> None:
    with suppress(OSError, AttributeError):  # other systems than Linux have none
        ctypes.CDLL(None).prctl(what, value, 0, 0, 0)


if __name__ == "__main__":
    main()
