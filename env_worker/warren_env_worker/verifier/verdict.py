"""What can come out of a comparison.

Invariant: a verdict is about the answer, and a policy can't choose not to be graded. A comparison that
the answer brought down is a verdict too: it counts as the answer's doing where the right answer can be
compared with itself and with a plain number (`golds`). Everything else that goes wrong raises `VerificationFailed`, which becomes a
failed episode and never a reward.
"""

from enum import StrEnum


class Verdict(StrEnum):
    EQUAL = "equal"
    DIFFERENT = "different"
    NO_ANSWER = "no_answer"
    """The words hold no answer in the form that was asked for."""
    UNPARSEABLE = "unparseable"
    """The answer is no mathematics, and not the text that was expected, or algebra stumbles over it."""
    REFUSED = "refused"
    """The answer is too long or would be too costly to evaluate, where the right one is not."""
    TIMED_OUT = "timed_out"
    """The comparison ran out of time or memory, and the right answer is not to blame."""


class VerificationFailed(Exception):
    """The verifier could not tell, whatever the answer is: it could not be started, or was too busy."""


class GoldUnusable(VerificationFailed):
    """The right answer can't be compared with itself or a plain number, so no answer is to blame."""


class ComparisonEnded(Exception):
    """A comparison without an outcome; `verdict` is that of the answer, if it is to blame."""

    def __init__(self, verdict: Verdict, reason: str) -> None:
        super().__init__(reason)
        self.verdict = verdict
