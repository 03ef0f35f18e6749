"""Admission: who may join the running batches, and when.

Requests are admitted by priority, then in order of arrival, as long as there are places, and the
cache holds the most that everybody may grow to; so nothing that was admitted ever has to
make way. One request always fits while nothing else runs.
"""

from bisect import insort
from collections.abc import Collection, Iterable, Mapping, Sequence

from warren_gpu_worker.sampler.engines.port import PolicyKey, Request


class WaitingLine:
    """`max_tokens` counts rows times columns of each batch, padding included."""

    def __init__(self, max_rows: int, max_tokens: int) -> None:
        self._max_rows = max_rows
        self._max_tokens = max_tokens
        self._rows: list[Request] = []  # the next one comes last

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def policies(self) -> set[PolicyKey]:
        return {row.policy for row in self._rows}

    def append(self, row: Request) -> None:
        insort(self._rows, row, key=_turn)

    def remove(self, ids: Collection[int]) -> None:
        self._rows = [row for row in self._rows if row.id not in ids]

    def admit(
        self, running: Mapping[PolicyKey, Sequence[Request]]
    ) -> dict[PolicyKey, list[Request]]:
        """Take from the head of the line what may join the rows that run now."""
        admitted: dict[PolicyKey, list[Request]] = {}
        if not self._rows:
            return admitted
        extents = {key: (len(rows), _longest(rows)) for key, rows in running.items()}
        n_rows = sum(n for n, _ in extents.values())
        n_tokens = sum(n * length for n, length in extents.values())
        while self._rows and n_rows < self._max_rows:
            row = self._rows[-1]
            key = row.policy
            n, length = extents.get(key, (0, 0))
            longer = max(length, row.max_length)
            n_tokens += (n + 1) * longer - n * length
            if n_rows and n_tokens > self._max_tokens:
                break
            extents[key] = (n + 1, longer)
            n_rows += 1
            admitted.setdefault(key, []).append(self._rows.pop())
        return admitted


def _turn(row: Request) -> tuple[int, int]:
    return -row.priority, -row.id


def _longest(rows: Iterable[Request]) -> int:
    return max(row.max_length for row in rows)
