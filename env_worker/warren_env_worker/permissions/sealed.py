"""Values of secrets on their way to an episode's process, apart from all else that defines it.

A process that others are forked from passes them on. Invariant: there they lie in memory that a forked
process finds empty (`memory_apart`), and are neither copied out of it nor decoded.
"""

import mmap
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from warren_schemas.fields.secret_variables import PREFIX

_MADV_WIPEONFORK = 18
_NEWLINES = b"\r\n"


@dataclass(frozen=True, slots=True)
class Sealed:
    """Sizes in bytes, in the order in which the values follow each other."""

    secrets: Mapping[str, int] = field(default_factory=dict[str, int])
    """By name: what the environment's code gets."""
    keys: Mapping[str, int] = field(default_factory=dict[str, int])
    """By variable: what may be sent to services."""
    values: bytes | memoryview = field(default=b"", repr=False)

    @classmethod
    def of(cls, secrets: Mapping[str, str], keys: Mapping[str, str]) -> "Sealed":
        named = {name: os.fsencode(value) for name, value in secrets.items()}
        sent = {variable: os.fsencode(value) for variable, value in keys.items()}
        return cls(
            {name: len(value) for name, value in named.items()},
            {variable: len(value) for variable, value in sent.items()},
            b"".join((*named.values(), *sent.values())),
        )

    def opened(self) -> tuple[dict[str, str], dict[str, str]]:
        """Secrets and keys; only in the process that they are for."""
        values = [os.fsdecode(bytes(value)) for _, value in self._parts()]
        n_secrets = len(self.secrets)
        return (
            dict(zip(self.secrets, values[:n_secrets], strict=True)),
            dict(zip(self.keys, values[n_secrets:], strict=True)),
        )

    def opened_by_name(self) -> dict[str, str]:
        """All of them; only in the process that they are for."""
        secrets, keys = self.opened()
        return {variable.removeprefix(PREFIX): key for variable, key in keys.items()} | secrets

    def lines(self) -> Iterator[tuple[bytes, memoryview]]:
        """Names and values, and of a value of several lines each one; all where they lie."""
        for name, value in self._parts():
            yield name.removeprefix(PREFIX).encode(), value
            begin = 0
            for end, byte in enumerate(value):
                if byte in _NEWLINES:
                    yield name.removeprefix(PREFIX).encode(), value[begin:end]
                    begin = end + 1
            if begin:
                yield name.removeprefix(PREFIX).encode(), value[begin:]

    def _parts(self) -> Iterator[tuple[str, memoryview]]:
        values, begin = memoryview(self.values), 0
        for name, n_bytes in (*self.secrets.items(), *self.keys.items()):
            yield name, values[begin : begin + n_bytes]
            begin += n_bytes


NOTHING = Sealed()


def memory_apart(n_bytes: int) -> mmap.mmap:
    """In processes that are forked from this one it is all zeros. Slices of it are copies: take a view."""
    memory = mmap.mmap(-1, n_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(_MADV_WIPEONFORK)
    return memory
