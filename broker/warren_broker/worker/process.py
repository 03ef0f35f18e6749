"""A process that leads a session of its own, and the end of all that is in it.

Invariants: its end is heard from the kernel, whatever it or another process still holds. Until all
of its session is killed it is not reaped, so that its id can't be given to another.
"""

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

MAX_ROUNDS = 100
"""Of killing a session's processes: those that fork all the while may be ahead of one."""

log = logging.getLogger(__name__)


class Process:
    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        variables: Mapping[str, str],
        descriptors: Sequence[int],
        log_path: Path | None,
        output: int | None = None,
    ) -> None:
        """Start it, from the loop's own thread: it may wish to die with its parent *thread*.

        It gets these environment variables and open descriptors, and no others. What it prints goes
        to the file at `log_path`, or else to the descriptor `output`, or else where ours goes.
        Raises `OSError`.
        """
        self.name = name
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        """Done once it and all of its session are dead."""
        self._popen = _start(command, variables, descriptors, log_path, output)
        try:
            self._exit = os.pidfd_open(self._popen.pid)
        except OSError:
            self.kill()
            self._popen.wait()
            raise
        self._loop.add_reader(self._exit, self._has_exited)

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def is_alive(self) -> bool:
        """False once it has ended, also before the event loop has heard of it."""
        if self._popen.returncode is not None:
            return False
        states = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, self._popen.pid, states) is None

    def kill(self) -> None:
        """End it now, and its process group with it; what else is in its session follows."""
        if self._popen.returncode is None:
            os.killpg(self._popen.pid, signal.SIGKILL)

    async def end(self, grace_s: float) -> int:
        """Wait for it, kill what is left, and reap; cancelled, do so at once. The exit code."""
        try:
            await asyncio.wait({self.ended}, timeout=grace_s)
            if not self.ended.done():
                log.warning("%s does not leave and is killed", self.name)
                self.kill()
                await asyncio.wait({self.ended})
        finally:
            self.reap()
        return self._popen.returncode

    def reap(self) -> None:
        """Kill it and its session, and let go of its id."""
        if self._popen.returncode is not None:
            return
        self.kill()
        os.waitid(os.P_PID, self._popen.pid, os.WEXITED | os.WNOWAIT)
        self._has_exited()
        self._popen.wait()

    def _has_exited(self) -> None:
        if self.ended.done():
            return
        self._loop.remove_reader(self._exit)
        os.close(self._exit)
        self.kill()
        try:
            _kill_session(self._popen.pid)
        except OSError as error:
            log.warning("what %s has left behind may live on: %s", self.name, error)
        self.ended.set_result(None)


def _start(
    command: Sequence[str],
    variables: Mapping[str, str],
    descriptors: Sequence[int],
    log_path: Path | None,
    output: int | None,
) -> "subprocess.Popen[bytes]":
    with contextlib.ExitStack() as stack:
        sink = stack.enter_context(log_path.open("ab")) if log_path else output
        return subprocess.Popen(
            command,
            env=variables,
            pass_fds=descriptors,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            start_new_session=True,
        )


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
