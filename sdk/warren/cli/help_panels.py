"""Panels of help pages: each text is one paragraph, however it is broken in the source."""

from typing import TYPE_CHECKING

from cyclopts.help import DefaultFormatter, HelpPanel

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions


class Paragraphs(DefaultFormatter):
    """Docstrings of settings come with the line breaks and the indentation of their source."""

    def __call__(self, console: "Console", options: "ConsoleOptions", panel: HelpPanel) -> None:
        from rich.text import Text

        for entry in panel.entries:
            text = getattr(entry.description, "primary_renderable", None)
            if isinstance(text, Text):
                text.plain = " ".join(text.plain.split())
        super().__call__(console, options, panel)
