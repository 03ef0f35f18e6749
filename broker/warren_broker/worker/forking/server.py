"""The fork server: `python -m warren_broker.worker.forking.server MODULE ...`.

It imports the modules, and then forks on demand. It has one thread, as the only one that goes on in a fork is
the one that forked. Invariants: who is forked leads a session of its own before anybody hears of it, dies with this process, which
dies with its supervisor, and is not reaped before the supervisor says so.
"""

import gc
import importlib
import os
import selectors
import signal
import socket
import sys
from dataclasses import dataclass

from setproctitle import setproctitle

from warren_broker.worker.forking.messages import (
    ORDER,
    PACKET_BYTES,
    Exited,
    Fork,
    Forked,
    Reap,
    Refused,
)
from warren_broker.worker.parent import (
    FD_VARIABLE,
    PARENT_VARIABLE,
    die_with_parent,
    inherited_socket,
)

_MAX_DESCRIPTORS = 2


@dataclass(frozen=True, slots=True)
class _Forked:
    id: int
    pid: int
    exit: int
    """A descriptor that becomes readable when it has exited."""


class ForkServer:
    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._selector = selectors.DefaultSelector()
        self._selector.register(connection, selectors.EVENT_READ)
        self._unreaped: dict[int, _Forked] = {}

    def serve(self) -> Fork | None:
        """Returns in each process that is forked, what it is to be; in the server, None when its supervisor hangs up."""
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is not self._connection:
                    self._tell_exit(key.data)
                    continue
                body, descriptors, _, _ = socket.recv_fds(
                    self._connection, PACKET_BYTES, _MAX_DESCRIPTORS
                )
                if not body:
                    return None
                order = ORDER.validate_json(body)
                if isinstance(order, Reap):
                    self._reap(order.id)
                elif self._fork(order, descriptors):
                    return order

    def _fork(self, order: Fork, descriptors: list[int]) -> bool:
        """Whether this is the fork."""
        server = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            self._say(Refused(id=order.id, reason=str(error)))
            return False
        if pid == 0:
            die_with_parent(server)
            self._become(order, server, *descriptors)
            return True
        for descriptor in descriptors:
            os.close(descriptor)
        forked = _Forked(order.id, pid, os.pidfd_open(pid))
        self._unreaped[order.id] = forked
        self._selector.register(forked.exit, selectors.EVENT_READ, forked)
        return False

    def _become(self, order: Fork, server: int, connection: int, output: int | None = None) -> None:
        os.setsid()
        for forked in self._unreaped.values():
            os.close(forked.exit)
        self._selector.close()
        if output is not None:
            os.dup2(output, 1)
            os.dup2(output, 2)
            os.close(output)
        os.environ.update(
            order.variables, **{FD_VARIABLE: str(connection), PARENT_VARIABLE: str(server)}
        )
        setproctitle(f"{sys.executable} -m {order.module} {order.name}")
        sys.argv = [order.module, order.name]
        own = os.pidfd_open(os.getpid())
        report = Forked(id=order.id, pid=os.getpid())
        socket.send_fds(self._connection, [report.model_dump_json().encode()], [own])
        os.close(own)
        self._connection.close()

    def _tell_exit(self, forked: _Forked) -> None:
        if forked.id not in self._unreaped:  # as was ordered a moment ago
            return
        self._selector.unregister(forked.exit)
        found = os.waitid(os.P_PID, forked.pid, os.WEXITED | os.WNOWAIT)
        assert found is not None, "its descriptor is readable"
        by_signal = found.si_code in (os.CLD_KILLED, os.CLD_DUMPED)
        exit_code = -found.si_status if by_signal else found.si_status
        self._say(Exited(id=forked.id, exit_code=exit_code))

    def _reap(self, id: int) -> None:
        forked = self._unreaped.pop(id)
        os.waitpid(forked.pid, 0)
        if forked.exit in self._selector.get_map():
            self._selector.unregister(forked.exit)
        os.close(forked.exit)

    def _say(self, report: Refused | Exited) -> None:
        self._connection.send(report.model_dump_json().encode())


def main() -> None:
    gc.disable()  # what is imported is no garbage
    connection = inherited_socket()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the supervisor's to handle
    for module in sys.argv[1:]:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()  # the collector would write to what forks share
    gc.enable()
    order = ForkServer(connection).serve()
    if order is not None:
        importlib.import_module(order.module).main()


if __name__ == "__main__":
    main()
