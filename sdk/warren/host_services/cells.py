"""What comes of a cell, which is a piece of Python that a sandbox runs.

Invariant: what went wrong in the cell is a status, and what went wrong with the sandbox is `SandboxFailed`.
"""

from dataclasses import dataclass
from enum import StrEnum


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
