r"""Algebra: are two expressions equal? Runs in a process that is killed when it takes too long.

math-verify parses LaTeX and compares by sympy. Its own time limits are off: they are alarms, which
a long multiplication ignores, and they cost the process its own. The right answer is put in a box,
without which bare LaTeX is misread.
"""

import logging
import sys
import warnings
from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from typing import Any

from warren.host_services.verdict import Verdict

MAX_DIGITS = 10_000
"""Of an integer that is written out."""

_WARM_UP = (
    (r"\frac{1}{2}", "0.5"),
    ("x^2+1", "(x+1)^2-2x"),
    (r"\sqrt{8}", r"2\sqrt2"),
    ("(1,2)", "(2,1)"),
    (r"\{1,2\}", r"\{2,1\}"),
    (r"(-\infty,3]", "[0,1)"),
    (r"\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{pmatrix}1\\3\end{pmatrix}"),
    ("y=2x+3", "y=3+2x"),
    (r"\text{yes}", "no"),
    (r"\frac{\pi}{4}", "0.785"),
)

Compare = Callable[[str, str], Verdict]


def make_compare() -> Compare:
    """Import what it takes (a second or more) and have done it once, so that forks find it warm."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    sys.set_int_max_str_digits(MAX_DIGITS)
    compare = _compare(import_module("math_verify"))
    for gold, answer in _WARM_UP:
        compare(gold, answer)
    return compare


def _compare(library: Any) -> Compare:
    targets = [
        library.LatexExtractionConfig(boxed_match_priority=0),
        library.ExprExtractionConfig(),
    ]

    @lru_cache(4096)
    def parsed(expression: str) -> list[Any]:
        boxed = f"\\boxed{{{expression}}}"
        return library.parse(boxed, targets, parsing_timeout=None, raise_on_error=True)

    def compare(gold: str, answer: str) -> Verdict:
        said = _parsed_answer(parsed.__wrapped__, answer)
        if not said:
            return Verdict.UNPARSEABLE
        try:
            is_same = library.verify(parsed(gold), said, timeout_seconds=None, raise_on_error=True)
        except RecursionError:
            return Verdict.REFUSED
        return Verdict.EQUAL if is_same else Verdict.DIFFERENT

    return compare


def _parsed_answer(parse: Callable[[str], list[Any]], answer: str) -> list[Any]:
    """Nothing for what is no mathematics: the parser says so by raising, among other ways."""
    try:
        return parse(answer)
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - a parser that gives up does so in many ways
        return []
