r"""From a model's words to its answer.

Only what follows the last `</think>` counts, and of several answers the last one: who says "try
\boxed{8}, no, \boxed{7}" has said 7. Every function takes time in proportion to the text.
"""

import re
from itertools import pairwise

from warren.host_services.verdict import AnswerForm

MAX_TEXT_CHARS = 65_536
"""The end of a text that is looked at; an answer stands at the end."""
MAX_BOX_CHARS = 4096
"""A box that is not closed within so many characters is no box."""
MAX_OPEN_BOXES = 16
"""After so many boxes that are not closed, an earlier one that is does not count."""

_TAGS = re.compile(r"<(/?)answer>", re.IGNORECASE)
_HASHES = re.compile(r"####[ \t]*([^\n]*)")
_BOXES = re.compile(r"\\f?box(?:ed)?(?![a-zA-Z])")
_BARE = re.compile(r"[^\s$.,;]+")
_ANNOUNCED = re.compile(r"\b(?:answer|result)(?: is|\s*[:=])[ \t]*", re.IGNORECASE)


def extract(text: str, form: AnswerForm = AnswerForm.AUTO) -> str | None:
    """The answer; None if there is none in this form, or an empty one."""
    said = text.rpartition("</think>")[2][-MAX_TEXT_CHARS:]
    for find in _FINDERS[form]:
        answer = find(said)
        if answer is not None:
            return answer.strip() or None
    return None


def last_boxed(text: str) -> str | None:
    r"""What the last balanced `\boxed{…}` (or `\fbox{…}`) holds; `\boxed 7` is a box as well."""
    for match in reversed(list(_BOXES.finditer(text))[-MAX_OPEN_BOXES:]):
        rest = text[match.end() : match.end() + MAX_BOX_CHARS].lstrip(" ")
        inside = _braced(rest) if rest.startswith("{") else _bare(rest)
        if inside is not None:
            return inside
    return None


def _braced(text: str) -> str | None:
    depth = 0
    for position, char in enumerate(text):
        if char not in "{}" or (position and text[position - 1] == "\\"):
            continue
        depth += 1 if char == "{" else -1
        if depth == 0:
            return text[1:position]
    return None


def _bare(text: str) -> str | None:
    match = _BARE.match(text)
    return match.group() if match else None


def _tagged(text: str) -> str | None:
    tags = list(_TAGS.finditer(text))
    for opening, closing in reversed(list(pairwise(tags))):
        if not opening.group(1) and closing.group(1):
            inside = text[opening.end() : closing.start()]
            boxed = last_boxed(inside)
            return inside if boxed is None else boxed
    return None


def _hashed(text: str) -> str | None:
    found = _HASHES.findall(text)
    return found[-1] if found else None


def _plain(text: str) -> str | None:
    lines = text.strip().splitlines()
    if not lines:
        return None
    announced = list(_ANNOUNCED.finditer(lines[-1]))
    said = lines[-1][announced[-1].end() :] if announced else lines[-1]
    return said.strip().rstrip(".")


_FINDERS = {
    AnswerForm.AUTO: (_tagged, last_boxed, _hashed),
    AnswerForm.BOXED: (last_boxed,),
    AnswerForm.TAG: (_tagged,),
    AnswerForm.HASHES: (_hashed,),
    AnswerForm.PLAIN: (_plain,),
}
