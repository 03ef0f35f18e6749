"""Memory and processes of the hosts of this test process, and of none of its other children."""

from pathlib import Path

from tests.support.hosting import child_pids
from tests.support.processes import descendants


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
