"""What a command prints: for people at a terminal, or plain for pipes, or JSON for programs.

Invariant: rich is imported only when stdout is a terminal, and `--json` prints JSON only.
"""

import os
import sys
from collections.abc import Sequence
from typing import Protocol

from pydantic import BaseModel


class Output(Protocol):
    """Where a command's answer goes; styles are rich's, and ignored where there is no terminal."""

    def line(self, text: str = "", style: str = "") -> None: ...

    def table(
        self, columns: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[str] = ()
    ) -> None:
        """One row each; the columns named in `right` hold numbers."""
        ...


def is_terminal() -> bool:
    return sys.stdout.isatty() and os.environ.get("TERM", "dumb") not in ("dumb", "unknown")


def make_output() -> Output:
    if not is_terminal():
        return PlainOutput()
    from warren.display.pretty import PrettyOutput

    return PrettyOutput()


def print_json(value: BaseModel) -> None:
    """One line, so that `--json` answers can be piped line by line."""
    print(value.model_dump_json(), flush=True)


class PlainOutput:
    """Text that a pipe, a log file or `grep` likes."""

    def line(self, text: str = "", style: str = "") -> None:
        print(text, flush=True)

    def table(
        self, columns: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[str] = ()
    ) -> None:
        cells = [[column.upper() for column in columns], *(list(row) for row in rows)]
        widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
        for row in cells:
            padded = [
                cell.rjust(width) if column in right else cell.ljust(width)
                for cell, width, column in zip(row, widths, columns, strict=True)
            ]
            self.line("  ".join(padded).rstrip())
