"""Memory and processes of the hosts of this test process, and of none of its other children."""

import contextlib
from pathlib import Path

from tests.support.hosting import child_pids


def descendants(pid: int) -> list[int]:
    """All processes below this one; nothing for one that ends meanwhile."""
    found: list[int] = []
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for task in Path(f"/proc/{pid}/task").glob("*/children"):
            for child in map(int, task.read_text().split()):
                found += [child, *descendants(child)]
    return found


def below() -> list[int]:
    """The hosts' children and all that these started."""
    return [pid for child in child_pids() for pid in [child, *descendants(child)]]


def resident_mib(pids: list[int]) -> float:
    """Memory that these processes hold by themselves."""
    total_kib = 0
    for pid in pids:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        total_kib += sum(
            int(line.split()[1]) for line in text.splitlines() if line.startswith("Private_")
        )
    return total_kib / 1024
