"""How many requests a second one owner may send, with bursts.

The generic cell rate algorithm (ITU-T I.371): of each owner one number is kept, the time at which the
requests of so far would have come at the allowed rate. Whoever is ahead of it by more than a burst waits.

Invariants
- Over any time, an owner's requests that pass are no more than the rate allows for it and one burst.
- A refused request costs nothing: whoever waits as long as told passes.
- What is kept is bounded by the owners who have sent something within the last burst.
"""

import time
from collections.abc import Callable

PRUNED_AT = 4096
"""Owners; by then those whose requests are long over are forgotten."""


class TooManyRequests(Exception):
    """This owner sends faster than may be."""

    def __init__(self, per_s: float, wait_s: float) -> None:
        super().__init__(f"You send more than {per_s:g} requests a second")
        self.wait_s = wait_s


class RequestRate:
    def __init__(
        self, *, per_s: float, burst: int, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_s = per_s
        self._burst_s = burst / per_s
        self._now_s = now_s
        self._due_s: dict[str, float] = {}

    def count(self, owner: str, own_per_s: float | None = None) -> None:
        """Let one request pass; `own_per_s` is the owner's own rate. Raises `TooManyRequests`."""
        per_s = own_per_s or self._per_s
        now_s = self._now_s()
        due_s = max(self._due_s.get(owner, now_s), now_s) + 1 / per_s
        ahead_s = due_s - now_s - max(self._burst_s, 1 / per_s)
        if ahead_s > 1e-9:
            raise TooManyRequests(per_s, ahead_s)
        self._due_s[owner] = due_s
        if len(self._due_s) > PRUNED_AT:
            self._due_s = {name: due for name, due in self._due_s.items() if due > now_s}
