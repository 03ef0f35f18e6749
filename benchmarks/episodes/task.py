"""The task: say three digits backwards. `482=` is asked, `284` is right.

It knows nothing of any trainer, so that every side imports the very same reward.
"""

import random

N_DIGITS = 3
MAX_TOKENS = N_DIGITS + 1
"""The digits and the end of the turn; whoever does not end there has one character too many."""


def question(rng: random.Random) -> str:
    return "".join(rng.choices("0123456789", k=N_DIGITS)) + "="


def answer(asked: str) -> str:
    return asked.removesuffix("=")[::-1]


def reward(asked: str, said: str) -> float:
    """0.8 for the share of positions that are right, 0.2 more if all of the text is."""
    right = answer(asked)
    n_right = sum(a == b for a, b in zip(said, right, strict=False))
    return 0.8 * n_right / N_DIGITS + 0.2 * (said == right)
