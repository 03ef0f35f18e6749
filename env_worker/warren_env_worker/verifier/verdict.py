"""What can come out of a comparison.

Invariant: a verdict is about the answer. A verifier that failed raises `VerificationFailed`, which
becomes a failed episode and never a reward.
"""

from enum import StrEnum


class Verdict(StrEnum):
    EQUAL = "equal"
    DIFFERENT = "different"
    NO_ANSWER = "no_answer"
    """The words hold no answer in the form that was asked for."""
    UNPARSEABLE = "unparseable"
    """The answer is no mathematics, and not the text that was expected."""
    REFUSED = "refused"
    """The answer is too long or would be too costly to evaluate, where the right one is not."""


class VerificationFailed(Exception):
    """The verifier could not tell: it ran out of time or memory, or could not be started."""
