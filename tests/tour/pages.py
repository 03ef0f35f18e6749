"""A page of the documentation as a reader meets it: its fenced blocks, each with the words around it."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    page: str
    line: int
    language: str
    """Empty where the page says none."""
    text: str
    heading: str
    before: str
    """The words between the block before it, or the heading, and this one."""
    after: str
    """The words up to the next block or heading."""

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks_of(name: str) -> list[Block]:
    """In their order; `name` is a path from the root of the repository."""
    page = (ROOT / name).read_text()
    fences = list(_FENCE.finditer(page))
    found: list[Block] = []
    for number, fence in enumerate(fences):
        begin = fences[number - 1].end() if number else 0
        end = fences[number + 1].start() if number + 1 < len(fences) else len(page)
        lead = _HEADING.split(page[begin : fence.start()])
        headings = _HEADING.findall(page[: fence.start()])
        found.append(
            Block(
                page=name,
                line=page[: fence.start()].count("\n") + 1,
                language=fence[1],
                text=fence[2],
                heading=headings[-1] if headings else "",
                before=lead[-1].strip(),
                after=_HEADING.split(page[fence.end() : end])[0].strip(),
            )
        )
    return found
