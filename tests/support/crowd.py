"""Memory and processes below this test process."""

import os
from pathlib import Path


def descendants(pid: int) -> list[int]:
    """All processes below this one."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, task.read_text().split()):
            found += [child, *descendants(child)]
    return found


def below() -> list[int]:
    return descendants(os.getpid())


def resident_mib(pids: list[int]) -> float:
    """Memory that these processes hold by themselves."""
    total_kib = 0
    for pid in pids:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        total_kib += sum(
            int(line.split()[1]) for line in text.splitlines() if line.startswith("Private_")
        )
    return total_kib / 1024
