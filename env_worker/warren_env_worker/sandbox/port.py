"""What every sandbox can do, and what comes of a cell.

A cell is a piece of Python. Invariant: `run` returns within the cell's time limit and a grace of a
few seconds, whatever the cell does; what went wrong in the cell is a status, and what went wrong
with the sandbox is `SandboxFailed`.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class CellStatus(StrEnum):
    OK = "ok"
    ERROR = "error"
    """It raised; the traceback is in the output."""
    TIMEOUT = "timeout"
    MEMORY = "memory"
    PROCESSES = "processes"
    FILES = "files"
    """Too many files; all were deleted."""
    OUTPUT = "output"
    """It printed far more than anybody would read."""
    DIED = "died"
    """Its process crashed, or ended itself."""
    LOST = "lost"
    """It took the session down with it: all variables are gone, the next cell starts afresh."""


@dataclass(frozen=True, slots=True)
class CellResult:
    status: CellStatus
    output: str
    """What it printed: the beginning and the end if it was long. Not to be trusted."""


class SandboxFailed(Exception):
    """The sandbox itself can't be had or used; the text says why, for a person."""


class Sandbox(Protocol):
    """One session; one cell at a time."""

    @property
    def tier(self) -> str:
        """Which kind of walls it has."""
        ...

    @property
    def keeps_state(self) -> bool:
        """True if a cell finds the variables of the cells before it."""
        ...

    async def run(self, code: str, limit_s: float) -> CellResult:
        """Run a cell. Raises `SandboxFailed`."""
        ...

    async def close(self) -> None:
        """End it, and all that runs in it."""
        ...


def shortened(text: str, n_chars: int) -> str:
    """The beginning and the end of a long text."""
    if len(text) <= n_chars:
        return text
    half = n_chars // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} characters left out …\n{text[-half:]}"
