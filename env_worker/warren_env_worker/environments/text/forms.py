r"""How an action is read from the policy's words, as a run's config chooses.

    config: {env: FrozenLake-v1, text: {tag: move}}

whole      all that was said, thoughts as well
marked     between the last <action> and </action>, or else the last line; thoughts are read as well
last_line  the last line that is not empty
boxed      in the last \boxed{…}
tag        between the last <TAG> and </TAG>
pattern    the one group of a regular expression of RE2's, where it matches first

All but the first two read what follows the thoughts. Invariants: reading takes time in proportion to the words, whatever
these and the pattern are, and the event loop does not wait for a pattern; what was sampled is never rewritten.
"""

import asyncio
from dataclasses import dataclass
from importlib import import_module
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from warren_env_worker.verifier.extraction import last_boxed
from warren_schemas.chat.answer_text import spoken

MAX_READ_CHARS = 8192
"""By a pattern: the end of what was said. With a pattern's length it bounds the time: 8 s for the worst that was found."""
MAX_PATTERN_CHARS = 200
_MARK = "action"


def _has_one_group(pattern: str) -> str:
    """Raises `ValueError` for a pattern by which nothing could be read."""
    if (trouble := _trouble(pattern, n_groups=0)) is not None:
        raise ValueError(f"no pattern of RE2's: {trouble}")
    if _trouble(pattern, n_groups=1) is not None or _trouble(pattern, n_groups=2) is None:
        raise ValueError("expected one group, around the action; others are written as (?:…)")
    return pattern


def _trouble(pattern: str, n_groups: int) -> str | None:
    """What is wrong with it, where it should have so many groups or more."""
    try:
        _replaced(pattern, f"\\{n_groups}", "")
    except ValueError as error:
        return str(error)
    return None


@dataclass(frozen=True, slots=True)
class Tag:
    tag: str


@dataclass(frozen=True, slots=True)
class Pattern:
    pattern: str


NamedForm = Literal["whole", "marked", "last_line", "boxed"]
Form = NamedForm | Tag | Pattern
TagName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,31}$")]
PatternText = Annotated[
    str, Field(min_length=1, max_length=MAX_PATTERN_CHARS), AfterValidator(_has_one_group)
]


async def action_in(words: str, form: Form) -> str | None:
    """What they say in this form; None where they say nothing in it."""
    match form:
        case "whole":
            return words
        case "marked":
            marked = _tagged(words, _MARK)
            return _last_line(words) if marked is None else marked
        case "last_line":
            found = _last_line(spoken(words))
        case "boxed":
            found = last_boxed(spoken(words))
        case Tag(tag=tag):
            found = _tagged(spoken(words), tag)
        case Pattern(pattern=pattern):
            found = await asyncio.to_thread(_matched, pattern, spoken(words)[-MAX_READ_CHARS:])
    return (found or "").strip() or None


def written(action: str, form: Form) -> str | None:
    """Words in which it is said; None where only a pattern's author knows them."""
    match form:
        case "whole" | "last_line":
            return action
        case "marked":
            return f"<{_MARK}>{action}</{_MARK}>"
        case "boxed":
            return f"\\boxed{{{action}}}"
        case Tag(tag=tag):
            return f"<{tag}>{action}</{tag}>"
        case Pattern():
            return None


def where_in(form: Form, what: str) -> str:
    """How the policy is told to say it, behind `Say one action in each turn`; a pattern's author tells it."""
    match form:
        case "whole":
            return ", and nothing else"
        case "last_line":
            return ", on the last line"
        case _:
            words = written(what, form)
            return "" if words is None else f", as {words}"


def expected_by(form: Form) -> str:
    """What the policy is told where it said nothing in this form."""
    match form:
        case "boxed":
            return "expected it in \\boxed{}"
        case Tag(tag=tag):
            return f"expected it between <{tag}> and </{tag}>"
        case Pattern(pattern=pattern):
            return f"expected what matches {pattern}"
        case "whole" | "marked" | "last_line":
            return "expected it on the last line"


def _last_line(words: str) -> str:
    return (words.strip().splitlines() or [""])[-1]


def _tagged(words: str, tag: str) -> str | None:
    """Between the last two that are a pair; pairs are looked for from the first word on."""
    opening, closing = f"<{tag}>", f"</{tag}>"
    inside, end = None, 0
    while (begin := words.find(opening, end)) >= 0:
        begin += len(opening)
        end = words.find(closing, begin)
        if end < 0:
            break
        inside, end = words[begin:end], end + len(closing)
    return inside


def _matched(pattern: str, said: str) -> str | None:
    """What its group holds; the two null characters that nobody said are put around it."""
    parts = _replaced(pattern, "\0\\1\0", said.replace("\0", "")).split("\0")
    return parts[1] if len(parts) > 1 else None


def _replaced(pattern: str, by: str, said: str) -> str:
    """With this in the place of the first match. Raises `ValueError` for what is no pattern of RE2's, or has not so many groups."""
    arrow, compute = _arrow()
    return compute.replace_substring_regex(
        arrow.scalar(said), pattern, by, max_replacements=1
    ).as_py()


def _arrow() -> tuple[Any, Any]:
    """Imported where a config has a pattern, and nowhere else."""
    return import_module("pyarrow"), import_module("pyarrow.compute")
