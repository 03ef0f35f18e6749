"""What a process that knows secrets prints, read by one that others are forked from.

Invariant: a value of a secret, or the beginning of one at the end of what was read, lies in memory that a
forked process finds empty, and is neither copied out of it nor told.
"""

import os
from collections.abc import Iterable

from warren_env_worker.permissions.sealed import memory_apart
from warren_env_worker.permissions.secrets import MIN_CHARS

READ_BYTES = 65_536
"""At once, at most."""


class PlainReader:
    """Of a process that knows no secrets."""

    def __init__(self, source: int) -> None:
        self._source = source

    def read(self) -> bytes | None:
        return os.read(self._source, READ_BYTES) or None

    def clean(self, printed: bytes) -> bytes:
        return printed

    def rest(self) -> bytes:
        return b""


class ReaderApart:
    """Of one that knows these."""

    def __init__(self, source: int, secrets: Iterable[tuple[bytes, memoryview]]) -> None:
        """`source` is the caller's."""
        self._source = source
        self._secrets = sorted(
            (secret for secret in secrets if len(secret[1]) >= MIN_CHARS),
            key=lambda secret: -len(secret[1]),
        )
        longest = max((len(value) for _, value in self._secrets), default=0)
        self._searched = memory_apart(READ_BYTES + longest)
        self._memory = memoryview(self._searched)
        self._n_held = 0
        """The beginning of a secret, perhaps: it waits for what follows."""

    def read(self) -> bytes | None:
        """What is surely free of secrets by now; None when nothing more will come.

        Raises `BlockingIOError` if there is nothing yet.
        """
        n_bytes = os.readv(self._source, [self._memory[self._n_held :]])
        return self._cleaned(self._n_held + n_bytes) if n_bytes else None

    def clean(self, printed: bytes) -> bytes:
        """The same of what was read elsewhere."""
        cleaned: list[bytes] = []
        for begin in range(0, len(printed), READ_BYTES):
            part = printed[begin : begin + READ_BYTES]
            end = self._n_held + len(part)
            self._memory[self._n_held : end] = part
            cleaned.append(self._cleaned(end))
        return b"".join(cleaned)

    def rest(self) -> bytes:
        """What was held back, once nothing more comes; of the beginning of a secret its name alone."""
        held, self._n_held = self._memory[: self._n_held], 0
        for name, value in self._secrets:
            if len(held) >= MIN_CHARS and value[: len(held)] == held:
                return b"<" + name + b">"
        return bytes(held)

    def _cleaned(self, end: int) -> bytes:
        """Of all up to there; what is held back is moved to the front.

        A secret that ends there waits, too, where it may be the beginning of another.
        """
        cleaned, begin = list[bytes](), 0
        n_begun = self._n_begun(begin, end)
        while (found := self._first(begin, end)) is not None and found[0] < end - n_begun:
            at, n_bytes, name = found
            cleaned += [bytes(self._memory[begin:at]), b"<" + name + b">"]
            begin = at + n_bytes
            n_begun = self._n_begun(begin, end)
        self._n_held = n_begun
        cleaned.append(bytes(self._memory[begin : end - self._n_held]))
        self._memory[: self._n_held] = self._memory[end - self._n_held : end]
        return b"".join(cleaned)

    def _first(self, begin: int, end: int) -> tuple[int, int, bytes] | None:
        """Where the first secret stands, the longest of several there; its size, and its name."""
        first: tuple[int, int, bytes] | None = None
        for name, value in self._secrets:
            at = self._searched.find(value, begin, end)
            if at >= 0 and (first is None or at < first[0]):
                first = at, len(value), name
        return first

    def _n_begun(self, begin: int, end: int) -> int:
        """So many bytes before the end are the beginning of a secret."""
        return max((self._n_begun_of(value, begin, end) for _, value in self._secrets), default=0)

    def _n_begun_of(self, value: memoryview, begin: int, end: int) -> int:
        for n_bytes in range(min(len(value) - 1, end - begin), 0, -1):
            if self._memory[end - n_bytes : end] == value[:n_bytes]:
                return n_bytes
        return 0
