"""Children by fork: one process has imported what they need, and each costs milliseconds instead of seconds.

    python -m tests.support.zygote DESCRIPTOR

From the descriptor comes first what modules it is to import, which its command line hides from who looks for processes that
run one of them. Then come orders: a packet for each fork, with the descriptors of a lease, of what it prints to, and of what
it inherits.

Invariants: a fork is to itself and to others as `python -m module name` would be, but for its parent, which is this process,
and for `/proc/self/environ`. It leads a session before anybody hears of it, and is not reaped before its lease ends. When
nobody can order any more this process ends, and all its forks with it.
"""

import fcntl
import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys
from contextlib import suppress
from dataclasses import dataclass

from setproctitle import setproctitle

from warren_broker.worker.parent import PARENT_VARIABLE

READY = b"ready"
ORDER_BYTES = 128 * 1024
"""No order is longer."""
_MOST_DESCRIPTORS = 16


@dataclass(frozen=True, slots=True)
class Order:
    module: str
    name: str
    folder: str
    """To work in."""
    variables: dict[str, str]
    """All that it has."""
    descriptors: list[int]
    """The numbers under which it knows those that come with the order, after that of the lease."""


class Zygote:
    def __init__(self, orders: socket.socket) -> None:
        self._orders = orders
        self._forks: dict[socket.socket, int] = {}
        """By their leases."""

    def serve(self) -> tuple[Order, list[int]] | None:
        """Returns in each fork, what it is to be and with which descriptors; in the zygote, None at its end."""
        while True:
            ready, _, _ = select.select([self._orders, *self._forks], [], [])
            for source in ready:
                if source is not self._orders:
                    self._reap(source)
                elif (ordered := self._order()) is None:
                    return None
                elif self._fork(socket.socket(fileno=ordered[1].pop(0))):
                    return ordered
                else:
                    for descriptor in ordered[1]:
                        os.close(descriptor)

    def _order(self) -> tuple[Order, list[int]] | None:
        body, descriptors, _, _ = socket.recv_fds(self._orders, ORDER_BYTES, _MOST_DESCRIPTORS)
        return (Order(**json.loads(body)), descriptors) if body else None

    def _fork(self, lease: socket.socket) -> bool:
        """Whether this is the fork."""
        pid = os.fork()
        if pid != 0:
            self._forks[lease] = pid
            return False
        os.setsid()
        own = os.pidfd_open(os.getpid())
        socket.send_fds(lease, [b"%d" % os.getpid()], [own])
        os.close(own)
        for inherited in (self._orders, lease, *self._forks):
            inherited.close()
        return True

    def _reap(self, lease: socket.socket) -> None:
        """And say its exit code. Whoever held it has seen its end, or can see it no more."""
        pid = self._forks.pop(lease)
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        with lease, suppress(ConnectionError):
            lease.send(b"%d" % os.waitstatus_to_exitcode(status))


def main() -> None:
    orders = socket.socket(fileno=int(sys.argv[1]))
    installed = sys.path[1:]
    for module in json.loads(orders.recv(ORDER_BYTES)):
        importlib.import_module(module)
    orders.send(READY)
    zygote = os.getpid()
    ordered = Zygote(orders).serve()
    if ordered is None:
        os._exit(0)  # so that its forks end as soon as with a real parent
    order, descriptors = ordered
    _place(descriptors, order.descriptors)
    _become(order, zygote, installed)
    sys.argv = [order.module, order.name]
    sys.modules.pop(order.module, None)  # a program is none of the modules that it imports
    runpy.run_module(order.module, run_name="__main__", alter_sys=True)


def _place(descriptors: list[int], numbers: list[int]) -> None:
    """Give them these numbers, which others of them may have by now."""
    lowest = max(numbers) + 1
    above = [fcntl.fcntl(d, fcntl.F_DUPFD_CLOEXEC, lowest) for d in descriptors]
    for descriptor in descriptors:
        os.close(descriptor)
    for descriptor, number in zip(above, numbers, strict=True):
        os.dup2(descriptor, number)
        os.close(descriptor)


def _become(order: Order, zygote: int, installed: list[str]) -> None:
    setproctitle(f"{sys.executable} -m {order.module} {order.name}")
    os.chdir(order.folder)
    os.environ.clear()
    os.environ.update(order.variables, **{PARENT_VARIABLE: str(zygote)})
    own = [path for path in order.variables.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.path[:] = [order.folder, *own, *installed]
    importlib.invalidate_caches()


if __name__ == "__main__":
    main()
