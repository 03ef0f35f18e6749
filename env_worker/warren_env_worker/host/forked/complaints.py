"""What episodes left behind, told in the log: the first time, and then ever more seldom."""

import logging
from collections import Counter

MAX_KINDS = 100
"""Told apart; more than so many have numbers in their names, and say nothing new."""

log = logging.getLogger(__name__)


class Complaints:
    def __init__(self, environment: str) -> None:
        self._environment = environment
        self._counts = Counter[str]()

    def note(self, leftover: str) -> None:
        """An episode's process is replaced, as this was left behind."""
        if leftover not in self._counts and len(self._counts) >= MAX_KINDS:
            return
        self._counts[leftover] += 1
        n_times = self._counts[leftover]
        if n_times in (1, 10, 100) or n_times % 1000 == 0:
            log.warning(
                "an episode of %s left %s behind, so its process is replaced, which costs time"
                " (%d so far; what is made at import or in tasks() is no leftover)",
                self._environment, leftover, n_times,
            )  # fmt: skip
