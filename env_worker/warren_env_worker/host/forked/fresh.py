"""What every episode finds alike, in a fresh process and in one that has played others.

Invariant: which episodes a process has played before can't be told from its random numbers, its
context variables or the memory that it may take.
"""

import random
import resource
import sys
from typing import Any

from warren_env_worker.host.child.memory import MIB, DataSize
from warren_env_worker.host.protocol import Start

MAX_GROWTH_MIB = 64
"""By so much may a process be larger than it began, and still take another episode."""


def seed(start: Start) -> None:
    """The global random states, so that code that uses them repeats itself as well."""
    random.seed(f"{start.seed}/{start.split}/{start.index}")
    others = random.getrandbits(32)  # drawn whoever wants it
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(others)
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        torch.default_generator.manual_seed(others)


class Memory:
    """How much this process may take, and how much it has grown."""

    def __init__(self, limit_mb: int | None) -> None:
        self._size = DataSize()
        self._limit_mb = limit_mb
        self._began_bytes = self._size.read_bytes()
        if limit_mb is not None:
            _, most = resource.getrlimit(resource.RLIMIT_DATA)
            wanted = self._began_bytes + (limit_mb + MAX_GROWTH_MIB) * MIB
            most = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
            resource.setrlimit(resource.RLIMIT_DATA, (most, most))

    def prepare(self, start: Start) -> None:
        """Before each episode: its random numbers, and its whole share of memory."""
        seed(start)
        if self._limit_mb is not None:
            _, most = resource.getrlimit(resource.RLIMIT_DATA)
            limit = min(self._size.read_bytes() + self._limit_mb * MIB, most)
            resource.setrlimit(resource.RLIMIT_DATA, (limit, most))

    def growth(self) -> str | None:
        """A word on it, if it is too much."""
        grown_mib = (self._size.read_bytes() - self._began_bytes) // MIB
        return f"{grown_mib} MiB of memory" if grown_mib > MAX_GROWTH_MIB else None

    def rebase(self) -> None:
        """What was taken by now is no growth."""
        self._began_bytes = self._size.read_bytes()
