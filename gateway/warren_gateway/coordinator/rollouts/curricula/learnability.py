"""How likely each level or task of a curriculum is to be drawn: most of all those that are solved half the time.

    P_i = (1 - u) l_i^(1/t) / sum_j l_j^(1/t) + u / n        l_i = p_i (1 - p_i)

`l` is the learnability of Rutherford et al. 2024, "No Regrets: Investigating and Improving Regret Approximations for
Curriculum Discovery" (arXiv 2408.15099): the variance of an outcome that is 0 or 1, and so the signal that a group of
them carries. The temperature t and the mixture are those of Jiang et al. 2021, "Prioritized Level Replay" (arXiv
2010.03934), P = (1 - rho) P_S + rho P_C with P_S in proportion to h(S_i)^(1/beta): here h is learnability and not the rank
of a value loss, and P_C is uniform. `p` is the mean of a
Beta distribution that begins as Beta(1, 1): what nobody has tried counts as solved half the time, so it is tried early.

Invariant: the same counts and the same number give the same draw, on every machine and after every takeover.
"""

import hashlib
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from math import fsum

_BYTES = 6
"""Of a draw: as many as a float holds exactly."""


def solve_rates(solved: Sequence[float], played: Sequence[float]) -> list[float]:
    """Of each, strictly between 0 and 1."""
    return [(s + 1.0) / (n + 2.0) for s, n in zip(solved, played, strict=True)]


def learnability(rates: Sequence[float]) -> list[float]:
    return [rate * (1.0 - rate) for rate in rates]


def probabilities(rates: Sequence[float], uniform: float, temperature: float) -> list[float]:
    """`uniform`: the share of the draws in which all are as likely."""
    most = max(learnability(rates))
    worth = [(each / most) ** (1.0 / temperature) for each in learnability(rates)]
    total, n = fsum(worth), len(worth)
    return [(1.0 - uniform) * each / total + uniform / n for each in worth]


def drawn(chances: Sequence[float], at: float) -> int:
    """The one in whose part of the line the point `at` lies, from 0 to less than 1."""
    ends = list(accumulate(chances))
    return min(bisect_right(ends, at * ends[-1]), len(ends) - 1)


def point(*what: object) -> float:
    """From 0 to less than 1, by chance and the same for the same."""
    text = "/".join(map(str, what))
    digest = hashlib.blake2b(text.encode(), digest_size=_BYTES).digest()
    return int.from_bytes(digest) / 256**_BYTES
