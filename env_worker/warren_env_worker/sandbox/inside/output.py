"""What is kept of what a cell prints: its beginning and its end."""

from typing import Tuple  # noqa: UP035 - runs on old Pythons


class Output:
    def __init__(self, n_kept_bytes: int) -> None:
        self._half = n_kept_bytes // 2
        self._head = bytearray()
        self._tail = bytearray()
        self.n_bytes = 0

    def add(self, data: bytes) -> None:
        self.n_bytes += len(data)
        n_left = self._half - len(self._head)
        self._head += data[:n_left]
        self._tail += data[n_left:]
        del self._tail[: -self._half]

    def text(self) -> Tuple[str, int]:  # noqa: UP006
        """What was kept, and how many bytes were not."""
        n_omitted = self.n_bytes - len(self._head) - len(self._tail)
        head, tail = (bytes(part).decode("utf-8", "replace") for part in (self._head, self._tail))
        if not n_omitted:
            return head + tail, 0
        return f"{head}\n… {n_omitted} bytes left out …\n{tail}", n_omitted
