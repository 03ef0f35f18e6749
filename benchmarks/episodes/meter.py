"""CPU of this process and all that it started: those that have ended, and those that are alive.

Invariant: nothing is counted twice, for a process's `cutime` holds only children that were waited
for. Counts come from /proc in clock ticks, so a span should be many of them (10 ms each).
"""

import os
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Self

_HOST = b"warren_env_worker.host.child_main"
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Reading:
    cpu_s: float
    wall_s: float
    hosts_cpu_s: float
    """Of the processes in which environments run."""

    @classmethod
    def now(cls) -> Self:
        used_s = cpu_by_process()
        hosts = (pid for pid in used_s if _is_host(pid))
        return cls(sum(used_s.values()), time.monotonic(), sum(used_s[pid] for pid in hosts))


def cpu_by_process(root: int | None = None) -> dict[int, float]:
    """Seconds of this (or that) process and its living descendants, each with its dead children."""
    children: dict[int, list[int]] = defaultdict(list)
    used_s: dict[int, float] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended, and is now in its parent's count
            continue
        pid = int(stat.parent.name)
        children[int(fields[1])].append(pid)
        used_s[pid] = sum(map(int, fields[11:15])) / _TICKS_PER_S  # utime, stime, cutime, cstime
    return {pid: used_s.get(pid, 0.0) for pid in _family(root or os.getpid(), children)}


def _is_host(pid: int) -> bool:
    """Forked ones among them, which have the command line of the one that they come from."""
    try:
        return _HOST in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def _family(pid: int, children: dict[int, list[int]]) -> list[int]:
    return [pid, *(member for child in children[pid] for member in _family(child, children))]
