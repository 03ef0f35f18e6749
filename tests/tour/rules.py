"""What a reader does with a block: told by its language, its own words, and those before it."""

import re
from dataclasses import dataclass
from enum import StrEnum

from tests.tour.pages import Block

PROGRAMS = ("make", "source", "export", "warren", "tensorboard", "python", "pip", "cd", "curl")


class Deed(StrEnum):
    FILE = "put into a file"
    SHELL = "typed into a shell"
    SCRIPT = "run as a program"
    CLASSES = "imported, checked and played"
    CONFIG = "read as a part of a config"
    ENTRY_POINT = "read as a part of pyproject.toml"
    OUTPUT = "compared with what was shown"


@dataclass(frozen=True)
class Task:
    deed: Deed
    block: Block
    file: str = ""
    then: tuple[str, ...] = ()
    """Commands that the words around it say."""


def task_of(block: Block) -> Task:
    """Raises for a block of which nobody knows what to do with it: there is none that isn't run."""
    words = " ".join(block.before.split())
    named = re.search(r"[Pp]ut this into `([\w./-]+)`(?: and run `([^`]+)`)?[^.`]*:$", words)
    if named:
        return Task(Deed.FILE, block, named[1], tuple(filter(None, [named[2]])))
    if block.language == "python":
        is_script = re.search(
            r"^(?!from|import|class|def|async def|@|\s|#|$)", block.text, re.MULTILINE
        )
        return Task(Deed.SCRIPT if is_script else Deed.CLASSES, block)
    if block.language in ("yaml", "toml"):
        return Task(Deed.CONFIG if block.language == "yaml" else Deed.ENTRY_POINT, block)
    if block.language in ("", "sh", "bash", "console") and all(map(_is_command, lines_of(block))):
        return Task(Deed.SHELL, block)
    if block.language in ("", "text"):
        return Task(Deed.OUTPUT, block)
    raise AssertionError(f"{block}: what is a reader to do with a block of {block.language!r}?")


def lines_of(block: Block) -> list[str]:
    """The commands of a block for a shell."""
    joined = re.sub(r"\\\n\s*", " ", block.text)
    lines = [line.removeprefix("$ ").strip() for line in joined.splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def _is_command(line: str) -> bool:
    words = [word for word in line.split() if not re.match(r"[A-Z_]+=", word)]
    return bool(words) and words[0] in PROGRAMS
