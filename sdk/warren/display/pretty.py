"""Output at a terminal, by rich."""

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

STATE_STYLES = {
    "queued": "yellow",
    "starting": "yellow",
    "running": "bold cyan",
    "completed": "green",
    "nothing learned": "bold yellow",
    "nothing to do": "yellow",
    "failed": "bold red",
    "cancelled": "magenta",
}


class PrettyOutput:
    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(highlight=False)

    def line(self, text: str = "", style: str = "") -> None:
        self.console.print(Text(text, style=style), soft_wrap=True)

    def table(
        self, columns: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[str] = ()
    ) -> None:
        table = Table(box=SIMPLE_HEAD, header_style="dim", pad_edge=False)
        for column in columns:
            table.add_column(column, justify="right" if column in right else "left")
        for row in rows:
            table.add_row(*(Text(cell, style=STATE_STYLES.get(cell, "")) for cell in row))
        self.console.print(table)
