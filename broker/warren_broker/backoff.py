"""Growing pauses between retries where no event can wake us."""

import random
from collections.abc import Iterator

FIRST_S = 0.05
LONGEST_S = 2.0


def pauses(first_s: float = FIRST_S, longest_s: float = LONGEST_S) -> Iterator[float]:
    """Seconds to wait, doubling, spread by a quarter so that clients don't come back in step."""
    pause_s = first_s
    while True:
        yield pause_s * random.uniform(0.75, 1.25)
        pause_s = min(longest_s, pause_s * 2)
