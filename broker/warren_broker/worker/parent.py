"""What a child process gets from its parent: a socket, and the signal that kills it with its parent."""

import ctypes
import os
import signal
import socket

FD_VARIABLE = "WARREN_CHILD_FD"
PARENT_VARIABLE = "WARREN_PARENT_PID"
_PR_SET_PDEATHSIG = 1


def inherited_socket() -> socket.socket:
    """From the process that started this one; from now on this one dies with it."""
    die_with_parent(int(os.environ.pop(PARENT_VARIABLE)))
    return socket.socket(fileno=int(os.environ.pop(FD_VARIABLE)))


def die_with_parent(parent: int) -> None:
    """At once, if it has ended already."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
