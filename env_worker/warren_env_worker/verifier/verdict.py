"""How a comparison may end without an outcome.

A comparison that the answer brought down is a verdict too: it counts as the answer's doing where the right answer can
be compared with itself and with a plain number (`golds`).
"""

from warren.host_services.verdict import Verdict, VerificationFailed


class GoldUnusable(VerificationFailed):
    """The right answer can't be compared with itself or a plain number, so no answer is to blame."""


class ComparisonEnded(Exception):
    """A comparison without an outcome; `verdict` is that of the answer, if it is to blame."""

    def __init__(self, verdict: Verdict, reason: str) -> None:
        super().__init__(reason)
        self.verdict = verdict
