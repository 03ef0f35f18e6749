r"""Answers that nobody should evaluate: what they write in a line would take a computer years.

A construct that the right answer has as well is allowed. What slips through costs the time limit of
one process and no more (`worker`); this is here to save that time.
"""

import re

MAX_ANSWER_CHARS = 400
"""Unless the right answer is long itself."""
MAX_DEPTH = 24
"""Of nested braces and brackets."""

_HAZARDS = tuple(
    re.compile(hazard)
    for hazard in (
        r"(?:\^|\*\*)[\s{(]*[+-]?(?:\d{4,}|\d{1,3}(?:,\d{3})+)",  # an exponent of four digits or more
        r"(?:\^|\*\*)[\s{(]*\d+\s*(?:\^|\*\*)",  # a tower of powers
        r"\d{4,}[)}]*\s*!|!\s*[)}]*\s*!",  # the factorial of a large number, or of a factorial
        r"\\(?:sum|prod|int|iint|oint|lim)(?![a-zA-Z])",
        r"\\[dt]?binom\s*\{[^{}]*\d{4,}",
        r"\\(?:def|newcommand|input|include|loop)(?![a-zA-Z])",
        r"(?:[+*/^-]\s*\(?[a-zA-Z0-9.]+\)?\s*){30,}",  # a very long expression
        r"\)\s*(?:\^|\*\*)\s*[{(]?\s*\d{2,}",  # the power of a sum, to be multiplied out
        r"\d{200,}",
        "[\x00-\x08\x0e-\x1f\ud800-\udfff]",
    )
)


def is_too_long(gold: str, answer: str) -> bool:
    return len(answer) > max(MAX_ANSWER_CHARS, 4 * len(gold))


def is_hazardous(gold: str, answer: str) -> bool:
    """True if the answer has what the right one lacks and what could be costly."""
    if _depth(answer) > max(MAX_DEPTH, _depth(gold)):
        return True
    return any(hazard.search(answer) and not hazard.search(gold) for hazard in _HAZARDS)


def _depth(text: str) -> int:
    depth = deepest = 0
    for char in text:
        depth += (char in "{([") - (char in "})]")
        deepest = max(deepest, depth)
    return deepest
