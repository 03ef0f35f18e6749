"""How long to wait before trying again: exponential, with jitter, up to a ceiling."""

import random
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    first_s: float = 0.1
    ceiling_s: float = 5.0

    def delays(self) -> Iterator[float]:
        """Endless waits in seconds: around 0.1, 0.2, 0.4 … 5, each somewhere in its upper half.

        The chance in it keeps many clients from coming back to a restarted gateway all at once.
        """
        delay_s = self.first_s
        while True:
            yield delay_s * random.uniform(0.5, 1.0)
            delay_s = min(2 * delay_s, self.ceiling_s)


BACKOFF = Backoff()
