"""Those who follow the events of runs at this gateway.

Invariants
- Each message comes once and in order, from the offset that was asked for.
- Who falls behind what the shared reader keeps reads what he missed from the broker, a part at a time:
  at most `CATCH_UP` parts are read at once, whoever asks, and while a client takes a part nothing at the
  broker is held for it.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

from warren_broker.errors import BrokerUnavailable
from warren_broker.inbox import Inbox, follow
from warren_broker.port import Broker
from warren_broker.topology import Stream
from warren_gateway.following.encoded_events import EncodedEvents, encoded
from warren_gateway.following.shared_reader import PREFETCH, SharedReader
from warren_schemas.events import RunEvent

KEPT_BYTES = 256 * 1024
"""Kept of each stream that is followed, and read at once by who is behind."""
CATCH_UP = 8
ANSWER_S = 10.0
"""A broker that gives nothing of what should be there for so long is away. What is no longer kept takes no
time: the next message that is kept comes instead."""


class Followers:
    """`follow` the events of any run."""

    def __init__(
        self, broker: Broker, *, kept_bytes: int = KEPT_BYTES, answer_s: float = ANSWER_S
    ) -> None:
        self._broker = broker
        self._kept_bytes = kept_bytes
        self._answer_s = answer_s
        self._readers: dict[Stream, SharedReader] = {}
        self._catching_up = asyncio.Semaphore(CATCH_UP)

    @property
    def n_readers(self) -> int:
        """Streams that are read from the broker."""
        return len(self._readers)

    @asynccontextmanager
    async def follow(
        self, stream: Stream, start: int
    ) -> AsyncGenerator[AsyncIterator[EncodedEvents]]:
        """The messages from offset `start` on; the iteration ends when the stream is deleted.

        Raises `BrokerError`, as does the iteration.
        """
        reader = self._reader(stream, start)
        reader.n_followers += 1
        try:
            reader.reach_back(start)
            await reader.attached()
            yield self._messages(stream, reader, start)
        finally:
            reader.n_followers -= 1
            await self._let_go(stream, reader)

    def _reader(self, stream: Stream, start: int) -> SharedReader:
        reader = self._readers.get(stream)
        if reader is None or reader.is_over:
            reader = SharedReader(self._broker, stream, start, self._kept_bytes)
            self._readers[stream] = reader
        return reader

    async def _let_go(self, stream: Stream, reader: SharedReader) -> None:
        if reader.n_followers:
            return
        if self._readers.get(stream) is reader:
            del self._readers[stream]
        await reader.close()

    async def _messages(
        self, stream: Stream, reader: SharedReader, offset: int
    ) -> AsyncGenerator[EncodedEvents]:
        while True:
            if offset < (covered_from := reader.covered_from):
                missed, offset = await self._missed(stream, offset, covered_from)
                for message in missed:
                    yield message
            elif (message := reader.find(offset)) is not None:
                yield message
                offset = message.offset + 1
            elif reader.is_over:
                reader.raise_error()
                return
            else:
                await reader.more()

    async def _missed(
        self, stream: Stream, start: int, end: int
    ) -> tuple[list[EncodedEvents], int]:
        """A part of what lies between these offsets, and where it ends."""
        part: list[EncodedEvents] = []
        size_bytes = 0
        reading = follow(
            self._broker, stream, RunEvent, start=start or "first", prefetch=PREFETCH, aside=True
        )
        async with self._catching_up, reading as inbox:
            while size_bytes < self._kept_bytes:
                message = await self._next(inbox)
                if message is None or message.offset >= end:
                    return part, end
                part.append(message)
                size_bytes += message.size_bytes
        return part, part[-1].offset + 1

    async def _next(self, inbox: Inbox[RunEvent]) -> EncodedEvents | None:
        """None when the stream is deleted. Raises `BrokerUnavailable` when nothing comes."""
        try:
            async with asyncio.timeout(self._answer_s):
                claims = await anext(inbox, None)
        except TimeoutError:
            raise BrokerUnavailable(
                f"events that are kept did not come within {self._answer_s:g} s"
            ) from None
        if claims is None:
            return None
        for claim in claims:
            claim.done()
        return encoded(claims)
