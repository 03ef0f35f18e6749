"""How long to wait before trying again: exponential, with jitter, up to a ceiling."""

import random
from collections.abc import Iterator

FIRST_S = 0.1
CEILING_S = 5.0


def delays() -> Iterator[float]:
    """Endless waits in seconds: around 0.1, 0.2, 0.4 … 5, each somewhere in its upper half.

    The chance in it keeps many clients from coming back to a restarted gateway all at once.
    """
    ceiling = FIRST_S
    while True:
        yield ceiling * random.uniform(0.5, 1.0)
        ceiling = min(2 * ceiling, CEILING_S)
