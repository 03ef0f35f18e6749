"""What a remote worker may do: the question that a session asks before everything."""

from collections.abc import Collection
from typing import Protocol

from warren_broker.topology import Address, Home, Topic, WorkQueue


class Grants(Protocol):
    """Each raises `NotAllowed` with a sentence that says what is not allowed, and why."""

    def declare(self, address: Address) -> None: ...
    def consume(self, source: WorkQueue | Home | Topic) -> None: ...
    async def publish(self, address: Address, body: bytes) -> None: ...
    async def give_up(self, origin: WorkQueue | Home, body: bytes) -> None: ...
    async def show(self, source: WorkQueue | Home | Topic, body: bytes) -> Collection[bytes]:
        """What of a message the worker may see: the body, a part of it, or nothing at all."""
        ...
