"""What an episode may change of its process besides Python's objects: threads, files, folder, signals.

Reading all of it costs some 50 µs and has no effect.
"""

import gc
import locale
import logging
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping

_SIGNALS = tuple(
    getattr(signal, name)
    for name in (
        "SIGALRM", "SIGCHLD", "SIGHUP", "SIGINT", "SIGPIPE", "SIGPROF", "SIGTERM", "SIGUSR1",
        "SIGUSR2", "SIGVTALRM",
    )
)  # fmt: skip
_TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
_LIMITS = tuple(
    getattr(resource, name)
    for name in ("RLIMIT_AS", "RLIMIT_CORE", "RLIMIT_CPU", "RLIMIT_FSIZE", "RLIMIT_NOFILE",
                 "RLIMIT_NPROC", "RLIMIT_STACK")
)  # fmt: skip
_N_LOOKS, _LOOK_S = 20, 0.0005
"""A thread that was joined is gone for Python a little earlier than for the kernel."""


class ProcessState:
    """What there was when it was made, to compare with."""

    def __init__(self) -> None:
        self._before = {name: read() for name, read in _READERS.items()}

    def change(self) -> str | None:
        """What is not as it was; None where all is."""
        for name, read in _READERS.items():
            if read() != self._before[name] and not self._settles(name, read):
                return name
        return None

    def _settles(self, name: str, read: Callable[[], object]) -> bool:
        if name != _THREADS:
            return False
        for _ in range(_N_LOOKS):
            time.sleep(_LOOK_S)
            if read() == self._before[name]:
                return True
        return False


def _n_threads() -> int:
    return os.stat("/proc/self/task").st_nlink


def _has_children() -> bool:
    """Living or dead; those that their parents left to us count as well."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _files() -> frozenset[str]:
    return frozenset(os.listdir("/proc/self/fd"))


def _variables() -> dict[bytes, bytes]:
    return dict(vars(os.environ)["_data"])


def _umask() -> int:
    umask = os.umask(0o077)
    os.umask(umask)
    return umask


def _handlers() -> tuple[object, ...]:
    return tuple(signal.getsignal(number) for number in _SIGNALS)


def _masked() -> object:
    return signal.pthread_sigmask(signal.SIG_BLOCK, ())


def _timers() -> tuple[bool, ...]:
    return tuple(signal.getitimer(timer)[0] > 0 for timer in _TIMERS)


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


_THREADS = "a thread"
_READERS: Mapping[str, Callable[[], object]] = {
    _THREADS: _n_threads,
    "a child process": _has_children,
    "an open file or connection": _files,
    "another working folder": os.getcwd,
    "changed environment variables": _variables,
    "another umask": _umask,
    "a signal handler": _handlers,
    "a blocked signal": _masked,
    "a timer": _timers,
    "changed resource limits": _limits,
    "another locale": lambda: locale.setlocale(locale.LC_ALL),
    "a changed sys.path": lambda: tuple(sys.path),
    "changed import hooks": lambda: (tuple(map(id, sys.meta_path)), tuple(map(id, sys.path_hooks))),
    "another standard stream": _streams,
    "changed settings of the interpreter": _interpreter,
    "a changed root logger": _logging,
}
