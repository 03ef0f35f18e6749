"""The supervisor's side of a fork server: it is started when it is first needed, and again when it has died.

Invariants: a process that is forked ends as one that was started by a command does, for whoever holds it: its end is heard
from the kernel, and its id is nobody else's until it is reaped. A fork server that dies takes all that it has forked with it;
their exit codes are then unknown.
"""

import asyncio
import contextlib
import itertools
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from warren_broker.worker.forking.messages import (
    PACKET_BYTES,
    REPORT,
    Exited,
    Fork,
    Forked,
    Reap,
    Refused,
)
from warren_broker.worker.parent import FD_VARIABLE, PARENT_VARIABLE
from warren_broker.worker.process import Process
from warren_broker.worker.session_leader import Executed, ExitWatch

SERVER_MODULE = "warren_broker.worker.forking.server"
FORK_S = 300.0
"""For its imports too, on a loaded machine."""
_EXIT_CODE_S = 3.0
"""How long a fork server may take to say the exit code of what has ended."""
_CLOSE_S = 1.0


class ForkServerKilled(OSError):
    """By SIGKILL, so that it says nothing about what was to be forked."""


class ForkServer:
    """Raises nothing before something is to be forked."""

    def __init__(
        self, modules: Sequence[str], variables: Mapping[str, str], *, fork_s: float = FORK_S
    ) -> None:
        """`modules` are imported before the first fork; `variables` are its environment and that of all its forks.

        One that has not forked `fork_s` after it was asked is killed.
        """
        self._modules = modules
        self._variables = variables
        self.fork_s = fork_s
        self._running: _Running | None = None

    async def fork(
        self,
        module: str,
        name: str,
        connection: int,
        *,
        output: int | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> "ForkedLeader":
        """Fork a process that imports `module` and calls its `main`, with these descriptors.

        Raises `OSError`, of which `ForkServerKilled` is one.
        """
        if self._running is None or self._running.has_died:
            self._running = _Running(self._modules, self._variables)
        descriptors = [connection] if output is None else [connection, output]
        try:
            async with asyncio.timeout(self.fork_s):
                return await self._running.fork(module, name, variables or {}, descriptors)
        except TimeoutError:
            self._running.kill()
            raise OSError(f"no process could be forked within {self.fork_s:g} s") from None

    async def close(self) -> None:
        """End it, and whatever of it still lives."""
        if self._running is not None:
            await self._running.close()


class ForkedLeader:
    """A child of the fork server; see `Leader`."""

    def __init__(self, pid: int, exit: int, reap: Callable[[], None]) -> None:
        self._pid = pid
        self._exit = ExitWatch(exit)
        self._reap = reap
        self._exit_code_s = _EXIT_CODE_S
        self._exit_code: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()

    @property
    def pid(self) -> int:
        return self._pid

    def has_exited(self) -> bool:
        return self._exit.has_exited()

    def when_exited(self, hear: Callable[[], None]) -> None:
        """When its exit code is known, or at the latest a few seconds after its end."""
        self._exit_code.add_done_callback(lambda _: hear())
        self._exit.watch(self._await_exit_code)

    def _await_exit_code(self) -> None:
        asyncio.get_running_loop().call_later(self._exit_code_s, self.tell_exit_code, None)

    def tell_exit_code(self, exit_code: int | None) -> None:
        if not self._exit_code.done():
            self._exit_code.set_result(exit_code)

    def expect_no_exit_code(self) -> None:
        """Whoever knows it has died."""
        self._exit_code_s = 0.0
        if self.has_exited():
            self.tell_exit_code(None)

    def wait(self) -> None:
        self._exit.wait()

    def reap(self) -> int | None:
        self._exit.close()
        self._reap()
        return self._exit_code.result() if self._exit_code.done() else None


class _Running:
    """One life of the fork server."""

    def __init__(self, modules: Sequence[str], variables: Mapping[str, str]) -> None:
        self._ids = itertools.count()
        self._asked: dict[int, asyncio.Future[ForkedLeader]] = {}
        self._unannounced: set[int] = set()
        """Ordered, and nothing was heard of them yet, whoever still waits for them."""
        self._unreaped: dict[int, ForkedLeader] = {}
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._ours.setblocking(False)
        with theirs:
            fixed = {
                FD_VARIABLE: str(theirs.fileno()),
                PARENT_VARIABLE: str(os.getpid()),
                "SPT_NOENV": "1",  # a fork's title takes no place of its variables in /proc
            }
            try:
                leader = Executed(
                    [sys.executable, "-m", SERVER_MODULE, *modules],
                    variables={**variables, **fixed},
                    descriptors=[theirs.fileno()],
                )
            except OSError:
                self._ours.close()
                raise
        self._process = Process("the fork server", leader)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._ours, self._hear)
        self._process.ended.add_done_callback(lambda _: self._has_ended())

    @property
    def has_died(self) -> bool:
        return not self._process.is_alive

    async def fork(
        self, module: str, name: str, variables: Mapping[str, str], descriptors: Sequence[int]
    ) -> ForkedLeader:
        order = Fork(id=next(self._ids), module=module, name=name, variables=dict(variables))
        asked = self._asked[order.id] = self._loop.create_future()
        try:
            with contextlib.suppress(ConnectionError):  # it has hung up: its end is heard, too
                socket.send_fds(self._ours, [order.model_dump_json().encode()], descriptors)
            self._unannounced.add(order.id)
            return await asked
        except asyncio.CancelledError:
            if asked.done() and not asked.cancelled() and not asked.exception():
                Process(name, asked.result()).reap()
            raise
        finally:
            del self._asked[order.id]

    def _hear(self) -> None:
        with contextlib.suppress(BlockingIOError, ConnectionError):
            while True:
                body, descriptors, _, _ = socket.recv_fds(self._ours, PACKET_BYTES, 1)
                if not body:
                    self._loop.remove_reader(self._ours)
                    return
                self._take(REPORT.validate_json(body), descriptors)

    def _take(self, report: Forked | Refused | Exited, descriptors: list[int]) -> None:
        is_first = report.id in self._unannounced
        self._unannounced.discard(report.id)
        if isinstance(report, Forked):
            self._take_forked(report, *descriptors)
        elif isinstance(report, Refused):
            self._fail(report.id, report.reason)
        elif is_first:
            self._fail(report.id, f"it ended at once, with exit code {report.exit_code}")
            self._order_reap(report.id)
        elif report.id in self._unreaped:
            self._unreaped[report.id].tell_exit_code(report.exit_code)

    def _take_forked(self, report: Forked, exit: int) -> None:
        leader = ForkedLeader(report.pid, exit, partial(self._reap, report.id))
        self._unreaped[report.id] = leader
        asked = self._asked.get(report.id)
        if asked is None or asked.done():  # nobody waits for it any more
            Process("a process that nobody waits for", leader).reap()
        else:
            asked.set_result(leader)

    def _fail(self, id: int, reason: str, kind: type[OSError] = OSError) -> None:
        asked = self._asked.get(id)
        if asked is not None and not asked.done():
            asked.set_exception(kind(f"no process could be forked: {reason}"))

    def _reap(self, id: int) -> None:
        del self._unreaped[id]
        self._order_reap(id)

    def _order_reap(self, id: int) -> None:
        """Whoever it does not hear of is reaped when it ends, by the system."""
        with contextlib.suppress(ConnectionError, BlockingIOError):
            if self._ours.fileno() >= 0:
                self._ours.send(Reap(id=id).model_dump_json().encode())

    def _has_ended(self) -> None:
        if self._ours.fileno() >= 0:
            self._hear()
        self._hang_up()
        self._process.reap()
        was_killed = self._process.exit_code == -signal.SIGKILL
        for id in self._asked:
            self._fail(id, "the fork server has died", ForkServerKilled if was_killed else OSError)
        for leader in self._unreaped.values():
            leader.expect_no_exit_code()

    def _hang_up(self) -> None:
        if self._ours.fileno() >= 0:
            self._loop.remove_reader(self._ours)
            self._ours.close()

    def kill(self) -> None:
        self._process.kill()

    async def close(self) -> None:
        """At once: it may be importing still, and holds nothing that needs tidying up."""
        self._hang_up()
        self.kill()
        await self._process.end(_CLOSE_S)
