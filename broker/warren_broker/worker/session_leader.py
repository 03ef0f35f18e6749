"""The process that leads a session, whoever started it. Its id is nobody else's until it is reaped."""

import asyncio
import contextlib
import os
import select
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol


class Leader(Protocol):
    """All in the thread of the event loop that it was started in."""

    @property
    def pid(self) -> int: ...

    def has_exited(self) -> bool:
        """Asked of the kernel, which knows it before the event loop does."""
        ...

    def when_exited(self, hear: Callable[[], None]) -> None:
        """Call `hear` from the event loop, once."""
        ...

    def wait(self) -> None:
        """Block until it has exited: only once it is killed."""
        ...

    def reap(self) -> int | None:
        """Let go of its id, once, after it has exited. Its exit code if that is known, negative for a signal."""
        ...


class Execute(Protocol):
    """`Executed`, or what is called like it. Raises `OSError`."""

    def __call__(
        self,
        command: Sequence[str],
        *,
        variables: Mapping[str, str],
        descriptors: Sequence[int],
        log_path: Path | None = None,
        output: int | None = None,
    ) -> Leader: ...


class Executed:
    """Started by us, and our child."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        variables: Mapping[str, str],
        descriptors: Sequence[int],
        log_path: Path | None = None,
        output: int | None = None,
    ) -> None:
        """Start it, from the loop's own thread: it may wish to die with its parent *thread*.

        It gets these environment variables and open descriptors, and no others. What it prints goes
        to the file at `log_path`, or else to the descriptor `output`, or else where ours goes.
        Raises `OSError`.
        """
        with contextlib.ExitStack() as stack:
            sink = stack.enter_context(log_path.open("ab")) if log_path else output
            self._popen = subprocess.Popen(
                command,
                env=variables,
                pass_fds=descriptors,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                start_new_session=True,
            )
        try:
            self._exit = ExitWatch(os.pidfd_open(self._popen.pid))
        except OSError:
            self._popen.kill()
            self._popen.wait()
            raise

    @property
    def pid(self) -> int:
        return self._popen.pid

    def has_exited(self) -> bool:
        return self._exit.has_exited()

    def when_exited(self, hear: Callable[[], None]) -> None:
        self._exit.watch(hear)

    def wait(self) -> None:
        self._exit.wait()

    def reap(self) -> int:
        self._exit.close()
        return self._popen.wait()


class ExitWatch:
    """A descriptor that stands for a process, and becomes readable when that has exited."""

    def __init__(self, descriptor: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._descriptor = descriptor
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLIN)
        self._is_watched = False

    def has_exited(self) -> bool:
        return bool(self._poll.poll(0))

    def wait(self) -> None:
        self._poll.poll()

    def watch(self, hear: Callable[[], None]) -> None:
        def exited() -> None:
            self._unwatch()
            hear()

        self._loop.add_reader(self._descriptor, exited)
        self._is_watched = True

    def close(self) -> None:
        self._unwatch()
        os.close(self._descriptor)

    def _unwatch(self) -> None:
        if self._is_watched:
            self._loop.remove_reader(self._descriptor)
            self._is_watched = False
