"""What comes of a comparison of a policy's answer with the right one.

Invariant: a verdict is about the answer, and a policy can't choose not to be graded. Everything else that goes wrong
raises, which becomes a failed episode and never a reward.
"""

from enum import StrEnum


class AnswerForm(StrEnum):
    """How the answer is marked in a policy's words."""

    AUTO = "auto"
    r"""`<answer>…</answer>`, else `\boxed{…}`, else `#### …`."""
    BOXED = "boxed"
    TAG = "tag"
    HASHES = "hashes"
    """GSM8K's `#### 42`."""
    PLAIN = "plain"
    """The last line, without "the answer is" and what goes before it."""


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
