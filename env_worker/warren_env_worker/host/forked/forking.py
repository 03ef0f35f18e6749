"""From the fork server to an episode's process, which has everything imported.

It shares nothing with its siblings but memory pages that nobody writes: globals, the working folder,
threads and leaks are its own and end with it.

Invariant: the forked process never returns into the fork server's code; it ends in `os._exit`.
"""

import contextlib
import ctypes
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from typing import NoReturn

from warren_env_worker.host.call_status import CallStatus
from warren_env_worker.host.forked.episode_process import EpisodeProcess

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_STDOUT, _STDERR = 1, 2
_ANONYMOUS = -1
"""Memory that is shared with forked processes alone needs no descriptor."""

Play = Callable[[socket.socket, CallStatus], None]
"""Takes calls from the socket until it ends."""


def fork(n_loads: int, play: Play) -> EpisodeProcess:
    """A process for episodes. Raises `OSError` when none can be had."""
    with contextlib.ExitStack() as theirs, contextlib.ExitStack() as ours:
        status = CallStatus(_ANONYMOUS)
        ours.callback(status.close)
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
            _live(their_talk, their_output, status, play)
        ours.callback(_put_down, pid)
        with contextlib.suppress(OSError):  # the child does the same; whoever comes first
            os.setpgid(pid, pid)
        process = EpisodeProcess(pid, talk, output, status, n_loads)
        ours.pop_all()  # they are the process's from now on
        return process


def _put_down(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def _live(talk: socket.socket, output: int, status: CallStatus, play: Play) -> NoReturn:
    """The forked process, from its first line to its last."""
    code = 1
    try:
        with contextlib.suppress(OSError):
            os.setpgid(0, 0)
        libc = ctypes.CDLL(None)
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        libc.prctl(
            _PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0
        )  # what it has started, at any depth, is seen
        os.dup2(output, _STDOUT)
        os.dup2(output, _STDERR)
        os.close(output)
        play(talk, status)
        code = 0
    except BaseException:  # noqa: BLE001 - nothing may unwind into the fork server
        traceback.print_exc()
    finally:
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)
