"""What an episode may change of its process besides Python's objects: threads, files, folder, signals.

Reading all of it costs some 25 µs, many times that with cold caches, and has no effect.
"""

import gc
import locale
import logging
import os
import resource
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from copy import copy

_SIGNALS = tuple(
    getattr(signal, name)
    for name in (
        "SIGALRM", "SIGCHLD", "SIGINT", "SIGTERM", "SIGUSR1",
    )
)  # fmt: skip
_LIMITS = tuple(
    getattr(resource, name)
    for name in ("RLIMIT_AS", "RLIMIT_CPU")
)  # fmt: skip

_STDOUT = 1


class ProcessState:
    """What there was when it was made, to compare with."""

    def __init__(self) -> None:
        self._before = {name: copy(read()) for name, read in _READERS.items()}

    def change(self) -> str | None:
        """What is not as it was; None where all is."""
        for name, read in _READERS.items():
            if read() != self._before[name]:
                return name
        return None


def _has_children() -> bool:
    """Living or dead; those that their parents left to us count as well."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _next_file() -> int:
    """The lowest free descriptor: the next one that is opened, or lower if one was closed."""
    descriptor = os.dup(_STDOUT)
    os.close(descriptor)
    return descriptor


def _umask() -> int:
    umask = os.umask(0o077)
    os.umask(umask)
    return umask


def _handlers() -> tuple[object, ...]:
    return tuple(signal.getsignal(number) for number in _SIGNALS)


def _masked() -> object:
    return signal.pthread_sigmask(signal.SIG_BLOCK, ())


def _has_timer() -> bool:
    return signal.getitimer(signal.ITIMER_REAL)[0] > 0


def _limits() -> tuple[tuple[int, int], ...]:
    return tuple(resource.getrlimit(limit) for limit in _LIMITS)


def _interpreter() -> tuple[object, ...]:
    return (
        sys.getrecursionlimit(), sys.get_int_max_str_digits(), sys.excepthook, sys.gettrace(),
        sys.getprofile(), gc.isenabled(), gc.get_threshold(), socket.getdefaulttimeout(),
    )  # fmt: skip


def _streams() -> tuple[int, ...]:
    return id(sys.stdin), id(sys.stdout), id(sys.stderr)


def _logging() -> tuple[object, ...]:
    return logging.root.level, logging.root.disabled, tuple(map(id, logging.root.handlers))


_READERS: Mapping[str, Callable[[], object]] = {
    "a thread": threading.active_count,
    "a child process": _has_children,
    "an open file or connection": _next_file,
    "another working folder": os.getcwd,
    "changed environment variables": lambda: vars(os.environ)["_data"],
    "another umask": _umask,
    "a signal handler": _handlers,
    "a blocked signal": _masked,
    "a timer": _has_timer,
    "changed resource limits": _limits,
    "another locale": lambda: locale.setlocale(locale.LC_ALL),
    "a changed sys.path": lambda: sys.path,
    "changed import hooks": lambda: (tuple(map(id, sys.meta_path)), tuple(map(id, sys.path_hooks))),
    "another standard stream": _streams,
    "changed settings of the interpreter": _interpreter,
    "a changed root logger": _logging,
}
