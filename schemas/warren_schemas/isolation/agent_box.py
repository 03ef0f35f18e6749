"""The box of an agent that is a program: what it may use of the machine on which it runs.

The author of an agent says it, and the operator of env workers says the most that there may be.
"""

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Literal

from warren_schemas.base import Frozen, Listed
from warren_schemas.config.sandbox import MemoryMib, Processes
from warren_schemas.fields.paths import AbsolutePath


class Box(Frozen):
    """Limits of a program and all that it starts, for one episode."""

    memory_mib: MemoryMib = 1024
    """Of all its processes together, with its files, which lie in memory."""
    processes: Processes = 64
    """At the same time; each thread counts."""
    network: Literal["endpoint", "host"] = "endpoint"
    """`endpoint`: it reaches the episode's endpoint and nothing else; `host`: the network of the machine."""
    readable: Listed[AbsolutePath] = ()
    """Files and folders that it may read besides its own folder and `/usr`."""

    def beyond(self, most: "Box") -> list[str]:
        """What is more than `most`, each in words; none if this box lies within."""
        return list(self._beyond(most))

    def _beyond(self, most: "Box") -> Iterator[str]:
        for name in ("memory_mib", "processes"):
            asked, allowed = getattr(self, name), getattr(most, name)
            if asked > allowed:
                yield f"{name} {asked} (at most {allowed})"
        if (self.network, most.network) == ("host", "endpoint"):
            yield "network host (endpoint alone)"
        for path in self.readable:
            if not any(PurePosixPath(path).is_relative_to(listed) for listed in most.readable):
                yield f"readable {path} (not listed)"
