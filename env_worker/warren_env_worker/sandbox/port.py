"""What every sandbox can do.

Invariant: `run` returns within the cell's time limit and a grace of a few seconds, whatever the cell does; what went
wrong in the cell is a status, and what went wrong with the sandbox is `SandboxFailed`.
"""

from typing import Protocol

from warren.host_services.cells import CellResult


class Sandbox(Protocol):
    """One session; one cell at a time."""

    @property
    def tier(self) -> str:
        """Which kind of isolation it has."""
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
