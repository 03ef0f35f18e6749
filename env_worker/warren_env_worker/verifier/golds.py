"""Right answers: each is tried out once something could not be compared with it.

Only so can we tell an answer that brings the algebra down from a right answer that does, whatever is
held against it. It is compared with itself, which may need no algebra, and with a plain number. What came
out is kept, so that a bad row of the data costs its time once.
"""

from collections.abc import Awaitable, Callable

from warren.host_services.verdict import Verdict
from warren_env_worker.verifier.verdict import ComparisonEnded, GoldUnusable

PLAIN = "1"
MAX_KNOWN = 10_000
"""Right answers that are remembered; then we begin anew."""

Compare = Callable[[str, str], Awaitable[Verdict]]


class Golds:
    def __init__(self, compare: Compare) -> None:
        self._compare = compare
        self._reasons: dict[str, str | None] = {}
        """Why it is unusable; None for one that is not."""

    def refuse_known(self, gold: str) -> None:
        """Raises `GoldUnusable` for one that is known to be."""
        reason = self._reasons.get(gold)
        if reason is not None:
            raise GoldUnusable(reason)

    async def check(self, gold: str) -> None:
        """Raises `GoldUnusable`, `VerificationFailed`."""
        if gold not in self._reasons:
            reason = await self._reason(gold)
            if len(self._reasons) >= MAX_KNOWN:
                self._reasons.clear()
            self._reasons[gold] = reason
        self.refuse_known(gold)

    async def _reason(self, gold: str) -> str | None:
        for answer, name in ((gold, "itself"), (PLAIN, PLAIN)):
            try:
                await self._compare(gold, answer)
            except ComparisonEnded as end:
                return f"the right answer can't be compared with {name}: {end}"
        return None
