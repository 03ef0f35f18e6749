"""Answers that Reasoning Gym's scorers may see: some of them run an answer as Python.

Invariant: what a policy says is never run. Scorers of these datasets (as seen with reasoning-gym 0.1.25) hand
the answer to `eval`, or to sympy's `parse_expr`, which does so too. An answer to one of them that is more
than such an answer needs is scored as if nothing had been said.
"""

import re

_LISTS = re.compile(r"[\w\s,\[\]'\"-]*")
"""Lists and words: nothing that could be called, or made long."""
_ARITHMETIC = re.compile(r"[\d\s+*/().-]*")
_FORMULA = re.compile(
    r"(?:\d++(?:\.\d++)?|(?:a?(?:sin|cos|tan)h?|sec|csc|cot|exp|log|ln|sqrt|pi|[A-Za-z])(?![A-Za-z0-9_.])"
    r"|[\s+*/^(),|-])*"
)

_ALLOWED = {
    "binary_matrix": _LISTS,
    "n_queens": _LISTS,
    "spiral_matrix": _LISTS,
    "string_insertion": _LISTS,
    "countdown": _ARITHMETIC,
    "puzzle24": _ARITHMETIC,
    "intermediate_integration": _FORMULA,
    "polynomial_multiplication": _FORMULA,
    "simple_integration": _FORMULA,
}


def runs_answers(dataset: str) -> bool:
    """Whether its scorer would run an answer."""
    return dataset in _ALLOWED


def harmless(dataset: str, answer: str) -> str:
    """The answer, or nothing in place of one that could do something."""
    allowed = _ALLOWED.get(dataset)
    if allowed is None:
        return answer
    is_code = "__" in answer or allowed.fullmatch(answer) is None
    return "" if is_code else answer
