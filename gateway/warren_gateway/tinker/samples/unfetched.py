"""Outcomes that clients have not come for yet: most come a moment later, and the store need not be asked.

Invariants: what is here is in the store as well, as the first outcome of its name; there are at most `MOST_BYTES`, and
the oldest go first. Whoever comes again, or to another gateway, is told by the store.
"""

from warren_gateway.tinker.samples.rows import FailedSample, Sampled

MOST_BYTES = 32 * 1024 * 1024


class Unfetched:
    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._kept: dict[str, tuple[str, Sampled]] = {}
        """By name: whose it is, and the outcome; the oldest first."""
        self._n_bytes = 0

    def keep(self, owner: str, name: str, outcome: Sampled) -> None:
        self.forget(name)
        self._kept[name] = (owner, outcome)
        self._n_bytes += _size_bytes(outcome)
        while self._n_bytes > self._most_bytes:
            self.forget(next(iter(self._kept)))

    def fetch(self, owner: str, name: str) -> Sampled | None:
        """It is here no more, then. None where there is none of this owner's."""
        whose, outcome = self._kept.get(name, ("", None))
        if whose != owner:
            return None
        self.forget(name)
        return outcome

    def forget(self, name: str) -> None:
        _, outcome = self._kept.pop(name, ("", None))
        if outcome is not None:
            self._n_bytes -= _size_bytes(outcome)


def _size_bytes(outcome: Sampled) -> int:
    return len(outcome.reason if isinstance(outcome, FailedSample) else outcome)
