"""Call status: 48 bytes of shared memory in which a child says which call it is in, and until when.

    8 bytes   number of the call, 0 while in none
    8 bytes   deadline, nanoseconds of the monotonic clock (the same clock in every process)
    8 bytes   the limit that the deadline came from, nanoseconds
    8 bytes   1 once the process wants to be replaced, as it has taken too much memory
    8 bytes   number of the call that was begun last, also after its end
    8 bytes   time spent in user code since the child began, nanoseconds

The supervisor reads it when a child is silent or dead, and so knows the one call that is to blame.
Writing costs three stores and no system call. The number is written last: who reads a number reads
its deadline, or a later one.
"""

import mmap
import os
import time

from warren_env_worker.host.protocol import IDLE

_SIZE_BYTES = 48
_NS = 1_000_000_000


class CallStatus:
    def __init__(self, descriptor: int) -> None:
        self._map = mmap.mmap(descriptor, _SIZE_BYTES)
        self._words = memoryview(self._map).cast("Q")

    def enter_call(self, call: int, limit_s: float) -> None:
        limit_ns = int(limit_s * _NS)
        self._words[2] = limit_ns
        self._words[1] = time.monotonic_ns() + limit_ns
        self._words[0] = call

    def leave_call(self) -> None:
        self._words[5] += time.monotonic_ns() - self._words[1] + self._words[2]
        self._words[0] = IDLE

    def begin_call(self, call: int) -> None:
        """All that happens from now on is to blame on this call, until another one begins."""
        self._words[4] = call

    def show_life(self) -> None:
        """Make progress, in no call."""
        self._words[1] = time.monotonic_ns()

    def ask_for_replacement(self) -> None:
        self._words[3] = 1

    @property
    def wants_replacement(self) -> bool:
        return bool(self._words[3])

    @property
    def call(self) -> int:
        return self._words[0]

    @property
    def begun(self) -> int:
        return self._words[4]

    @property
    def busy_s(self) -> float:
        """In user code, in all."""
        return self._words[5] / _NS

    @property
    def limit_s(self) -> float:
        return self._words[2] / _NS

    @property
    def progress(self) -> int:
        """Changes whenever a call is entered."""
        return self._words[1]

    @property
    def remaining_s(self) -> float:
        """Until the deadline of the call; negative when it is past."""
        return (self._words[1] - time.monotonic_ns()) / _NS

    def close(self) -> None:
        self._words.release()
        self._map.close()


class SharedCallStatus(CallStatus):
    """The supervisor's end: owns the memory, which has no name in any file system."""

    def __init__(self) -> None:
        self._descriptor = os.memfd_create("warren-cell")
        os.ftruncate(self._descriptor, _SIZE_BYTES)
        super().__init__(self._descriptor)

    @property
    def path(self) -> str:
        """Where a child of the same user can open it while we live."""
        return f"/proc/{os.getpid()}/fd/{self._descriptor}"

    def close(self) -> None:
        super().close()
        os.close(self._descriptor)


def open_status(path: str) -> CallStatus:
    """The child's end."""
    descriptor = os.open(path, os.O_RDWR)
    try:
        return CallStatus(descriptor)
    finally:
        os.close(descriptor)
