"""The code that docs/environments.md shows."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "environments.md"
_BLOCK = re.compile(r"^```(?:python|yaml)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def page() -> str:
    return PAGE.read_text()


def block_with(words: str) -> str:
    """The one block of code that holds these words."""
    (block,) = [block for block in _BLOCK.findall(page()) if words in block]
    return block
