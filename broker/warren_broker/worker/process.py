"""A process that leads a session of its own, and the end of all that is in it.

Invariants: its end is heard from the kernel, whatever it or another process still holds. Until all
of its session is killed it is not reaped, so that its id can't be given to another.
"""

import asyncio
import contextlib
import logging
import os
import signal

from warren_broker.worker.session_leader import Leader

MAX_ROUNDS = 100
"""Of killing a session's processes: those that fork all the while may be ahead of one."""

log = logging.getLogger(__name__)


class Process:
    def __init__(self, name: str, leader: Leader) -> None:
        """From the event loop's own thread."""
        self.name = name
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done once it and all of its session are dead."""
        self.exit_code: int | None = None
        """Once it is reaped, if it is known; negative for a signal."""
        self._leader = leader
        self._is_reaped = False
        leader.when_exited(self._has_exited)

    @property
    def pid(self) -> int:
        return self._leader.pid

    @property
    def is_alive(self) -> bool:
        """False once it has ended, also before the event loop has heard of it."""
        return not self._is_reaped and not self._leader.has_exited()

    def kill(self) -> None:
        """End it now, and its process group with it; what else is in its session follows."""
        if not self._is_reaped:
            with contextlib.suppress(
                ProcessLookupError
            ):  # whoever had started it may have reaped it
                os.killpg(self.pid, signal.SIGKILL)

    async def end(self, grace_s: float) -> int | None:
        """Wait for it, kill what is left, and reap; cancelled, do so at once. The exit code."""
        try:
            await asyncio.wait({self.ended}, timeout=grace_s)
            if not self.ended.done():
                log.warning("%s does not leave and is killed", self.name)
                self.kill()
                await asyncio.wait({self.ended})
        finally:
            self.reap()
        return self.exit_code

    def reap(self) -> None:
        """Kill it and its session, and let go of its id."""
        if self._is_reaped:
            return
        self.kill()
        self._leader.wait()
        self._has_exited()
        self.exit_code = self._leader.reap()
        self._is_reaped = True

    def _has_exited(self) -> None:
        if self.ended.done():
            return
        self.kill()
        try:
            _kill_session(self.pid)
        except OSError as error:
            log.warning("what %s has left behind may live on: %s", self.name, error)
        self.ended.set_result(None)


def _kill_session(leader: int) -> None:
    """Kill what its leader, which is dead and not reaped, has left behind, in whatever group.

    Raises `OSError` where processes can't be looked at, for want of descriptors for instance.
    """
    killed = {leader}
    for _ in range(MAX_ROUNDS):
        left = [pid for pid in _processes() if pid not in killed and _is_in(pid, leader)]
        if not left:
            return
        for pid in left:
            _kill_if_in(pid, leader)
        killed.update(left)


def _processes() -> list[int]:
    return [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]


def _is_in(pid: int, session: int) -> bool:
    try:
        return os.getsid(pid) == session
    except OSError:  # it has ended meanwhile
        return False


def _kill_if_in(pid: int, session: int) -> None:
    """Look again once the descriptor is there: from then on it stands for this process alone."""
    with contextlib.suppress(ProcessLookupError):
        descriptor = os.pidfd_open(pid)
        try:
            if _is_in(pid, session):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        finally:
            os.close(descriptor)
