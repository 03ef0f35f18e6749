"""Children that a zygote forks, for whoever would start them as programs: see `zygote`."""

import atexit
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from functools import cached_property
from pathlib import Path

from tests.support.patience import PATIENCE_S
from tests.support.zygote import READY, Order

from warren_broker.worker.credentials import harmless_variables
from warren_broker.worker.session_leader import ExitWatch, Leader

PROGRAM = "tests.support.zygote"

_ROOT = Path(__file__).parents[2]
_STDOUT, _STDERR = 1, 2


class Zygote:
    """Of this process, and gone with it. It is started when it is first needed, which takes as long as its imports."""

    def __init__(self, *modules: str) -> None:
        self._modules = modules
        self._starting = threading.Lock()

    def start(self) -> None:
        """For whoever can't have the event loop stand still in a test: in a thread, from several at once, too."""
        with self._starting:
            assert self._orders.fileno() >= 0

    @cached_property
    def _orders(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        installed = {k: v for k, v in harmless_variables().items() if k != "PYTHONPATH"}
        with theirs:
            running = subprocess.Popen(
                [sys.executable, "-m", PROGRAM, str(theirs.fileno())],
                env={**installed, "OMP_NUM_THREADS": "1"},
                pass_fds=[theirs.fileno()],
                cwd=_ROOT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        atexit.register(_end, running, ours)
        ours.send(json.dumps(self._modules).encode())
        assert ours.recv(16) == READY, "it has died"
        return ours

    def execute(
        self,
        command: Sequence[str],
        *,
        variables: Mapping[str, str],
        descriptors: Sequence[int],
        log_path: Path | None = None,
        output: int | None = None,
    ) -> Leader:
        """In place of `Executed`, for `python -m module name` alone."""
        python, flag, module, name = command
        assert (python, flag) == (sys.executable, "-m")
        order = Order(module, name, os.getcwd(), dict(variables), [_STDOUT, _STDERR, *descriptors])
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, _sinks(log_path, output) as sinks:
            body = json.dumps(asdict(order)).encode()
            socket.send_fds(self._orders, [body], [theirs.fileno(), *sinks, *descriptors])
        ours.settimeout(PATIENCE_S)
        said, (exit_descriptor,), _, _ = socket.recv_fds(ours, 16, 1)
        return _Forked(int(said), exit_descriptor, ours)


def _end(zygote: "subprocess.Popen[bytes]", orders: socket.socket) -> None:
    orders.close()
    zygote.wait()


class _Forked:
    """See `Leader`."""

    def __init__(self, pid: int, exit_descriptor: int, lease: socket.socket) -> None:
        self.pid = pid
        self._exit = ExitWatch(exit_descriptor)
        self._lease = lease

    def has_exited(self) -> bool:
        return self._exit.has_exited()

    def when_exited(self, hear: Callable[[], None]) -> None:
        self._exit.watch(hear)

    def wait(self) -> None:
        self._exit.wait()

    def reap(self) -> int:
        self._exit.close()
        with self._lease as lease:
            lease.shutdown(socket.SHUT_WR)
            return int(lease.recv(16))


@contextmanager
def _sinks(log_path: Path | None, output: int | None) -> Generator[tuple[int, int]]:
    """Where its standard output and its standard error go."""
    with ExitStack() as stack:
        sink = stack.enter_context(log_path.open("ab")).fileno() if log_path else output
        yield (_STDOUT, _STDERR) if sink is None else (sink, sink)
