"""How a child process that works on files for long is told from one that hangs.

Before every step over files (write, hash, sync, copy to or from a store, read a base model) the child
says how many bytes the step moves. Its supervisor then waits for as long as it would anyway and for
the time that those bytes take at `min_disk_bytes_per_s` of its settings: libraries write, sync and read a file of many
GB in one call that says nothing until it returns. A copy to or from a store also tells of every piece
of a file, since a network that moves may be slower than that.

Invariants: nothing is told that no step stands behind, so a step that never ends is found, after a
time that its own bytes bound; a step that moves at least that fast is never taken for hung.
"""

from pathlib import Path
from typing import Protocol


class Progress(Protocol):
    """Called before a step, with the bytes that it moves where it moves files."""

    def __call__(self, size_bytes: int = 0, /) -> None: ...


def unheard(size_bytes: int = 0, /) -> None:
    """The progress of a process that nobody watches."""


def allowance_s(size_bytes: int, min_bytes_per_s: float) -> float:
    """How long a step over so many bytes may take on the slowest disk that is good enough."""
    return size_bytes / min_bytes_per_s


def folder_bytes(folder: Path) -> int:
    """Of all files in a local folder, not below it; 0 where there is none."""
    return sum(file.stat().st_size for file in folder.glob("*") if file.is_file())
