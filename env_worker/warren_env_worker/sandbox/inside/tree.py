"""The processes below this one: which there are, how much they use, and killing them.

Invariant of `sweep`: when it returns True nothing but the kept process lives below this one. Those
that lose their parent come to us (we are process 1, or a subreaper), so none can slip away.
"""

import contextlib
import os
import signal
import time
from typing import Iterator, List  # noqa: UP035 - runs on old Pythons

SWEEP_S = 10.0
"""The dying need some time of a processor as well."""
N_CLEAN = 3
"""A process that changes its parent while we look can be missed once, but not time and again: soon
nothing dies any more that could make it change."""
_PAUSE_S = 0.001


def living() -> List[int]:  # noqa: UP006
    """All below this process that are no zombies."""
    found: List[int] = []  # noqa: UP006
    waiting = [os.getpid()]
    while waiting:
        children = list(_children(waiting.pop()))
        waiting += children
        found += [child for child in children if _is_alive(child)]
    return found


def resident_bytes(processes: List[int]) -> int:  # noqa: UP006
    """Memory that the processes have in use; what they share counts for each."""
    return sum(_n_pages(process) for process in processes) * os.sysconf("SC_PAGESIZE")


def sweep(keep: int) -> bool:
    """Kill all below this process but one; True if that one is alive."""
    deadline = time.monotonic() + SWEEP_S
    n_clean = 0
    while n_clean < N_CLEAN:
        _reap()
        doomed = [process for process in living() if process != keep]
        n_clean = 0 if doomed else n_clean + 1
        if time.monotonic() > deadline:
            return False
        for number in (signal.SIGSTOP, signal.SIGKILL):  # stopped first, it can't fork any more
            for process in doomed:
                send(process, number)
        time.sleep(_PAUSE_S)
    return keep in living()


def send(process: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, number)


def _reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _children(process: int) -> Iterator[int]:
    with contextlib.suppress(OSError):  # it is gone
        for thread in os.listdir(f"/proc/{process}/task"):
            with open(f"/proc/{process}/task/{thread}/children", "rb") as file:
                yield from map(int, file.read().split())


def _is_alive(process: int) -> bool:
    try:
        with open(f"/proc/{process}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except OSError:
        return False


def _n_pages(process: int) -> int:
    try:
        with open(f"/proc/{process}/statm", "rb") as file:
            return int(file.read().split()[1])
    except (OSError, IndexError):
        return 0
