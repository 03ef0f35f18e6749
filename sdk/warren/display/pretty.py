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
        """What a row is called, in the first column, stays whole, for it is there to be copied; so do numbers."""
        table = Table(box=SIMPLE_HEAD, header_style="dim", pad_edge=False, padding=(0, 1, 0, 0))
        for column in columns:
            is_whole = column == columns[0] or column in right
            justify = "right" if column in right else "left"
            table.add_column(column, justify=justify, no_wrap=is_whole, overflow="fold")
        for row in rows:
            table.add_row(*(Text(cell, style=STATE_STYLES.get(cell, "")) for cell in row))
        self.console.print(table)
