"""Patterns of names: `*` stands for any characters, `?` for one; all others stand for themselves."""

import re
from collections.abc import Iterable
from functools import lru_cache


def is_pattern(name: str) -> bool:
    return "*" in name or "?" in name


def names_one(names: Iterable[str], name: str) -> bool:
    """Whether a name is among these names and patterns."""
    return any(one == name or (is_pattern(one) and _matches(one, name)) for one in names)


def _matches(pattern: str, name: str) -> bool:
    return _compiled(pattern).fullmatch(name) is not None


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    """Several `*` in a row are one, which takes no longer to match."""
    parts = re.split(r"(\*+|\?)", pattern)
    return re.compile("".join(_TO_REGEX.get(part[:1], re.escape(part)) for part in parts))


_TO_REGEX = {"*": ".*", "?": "."}
