"""Episodes that wait for a process, in the order in which they came."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace

from warren_env_worker.host.protocol import Call


class Waiting:
    def __init__(self) -> None:
        self._calls: deque[tuple[Call, int]] = deque()

    def __len__(self) -> int:
        return len(self._calls)

    @property
    def first(self) -> tuple[Call, int]:
        """And after how many loads of tasks its process must have been forked."""
        return self._calls[0]

    def put(self, call: Call, n_loads: int) -> None:
        self._calls.append((call, n_loads))

    def put_first(self, calls: Sequence[Call], loaded_at: Callable[[Call], int]) -> None:
        """Back again, through no fault of their own. Whether one is stateless is found out anew."""
        again = [replace(call, is_stateless=False) for call in reversed(calls)]
        self._calls.extendleft((call, loaded_at(call)) for call in again)

    def take(self) -> Call:
        return self._calls.popleft()[0]

    def drop_call(self, slot: int) -> Call | None:
        """Nobody needs this one any more; the call, if it was here."""
        dropped = next((call for call, _ in self._calls if call.slot == slot), None)
        if dropped is not None:
            self._calls = deque(waiting for waiting in self._calls if waiting[0] is not dropped)
        return dropped
