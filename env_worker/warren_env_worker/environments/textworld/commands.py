"""What the policy said, as one command that a game of TextWorld may hear.

Invariant: none is a command of the game's interpreter (`save`, `restart`, `undo`, …), some of which write files, or of
TextWorld itself.
"""

import re

MAX_COMMAND_CHARS = 100
_LEGIBLE = re.compile(r"[ -\[\]-~]+")
"""No backslash, which begins commands of the interpreter's own."""
_NO_COMMAND = re.compile(
    r"\b(?:save|restore|restart|quit|q|undo|verify|replay|restrict|script|unscript|noscript"
    r"|(?:transcrip|notranscr|recording|tw-)\S*)(?![\w-])"
)
"""The game reads nine letters of a word."""


def command_in(said: str) -> str | None:
    """None where the game may not hear it."""
    command = " ".join(said.split()).strip("`'\"*> ")
    if len(command) > MAX_COMMAND_CHARS or not _LEGIBLE.fullmatch(command):
        return None
    return None if _NO_COMMAND.search(command.lower()) else command
