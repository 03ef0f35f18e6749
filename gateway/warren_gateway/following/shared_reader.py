"""The reader of one run's events, for all who follow them at this gateway.

Invariants
- One consumer at the broker, however many follow; it is there as long as somebody does.
- It reads on only when a follower has come to the end of what was read: nobody who is slow holds up
  another, and nobody who is quick fills the memory. The newest `kept_bytes` are kept, and one message at
  least.
- What is kept is in the stream, so who is behind it finds an end when he reads up to it.
- When it fails, everybody who follows is told, and whoever comes next begins with a new one.
"""

import asyncio
import logging
from collections import deque

from warren_broker.errors import BrokerError, BrokerUnavailable
from warren_broker.inbox import follow
from warren_broker.port import Broker
from warren_broker.topology import Stream
from warren_gateway.following.encoded_events import EncodedEvents, encoded
from warren_schemas.events import RunEvent

PREFETCH = 8

log = logging.getLogger(__name__)


class SharedReader:
    def __init__(self, broker: Broker, stream: Stream, start: int, kept_bytes: int) -> None:
        self._broker = broker
        self._stream = stream
        self._kept_bytes = kept_bytes
        self._kept: deque[EncodedEvents] = deque()
        self._n_bytes = 0
        self.covered_from = start
        """Every message from this offset on that was read is kept."""
        self._wanted = asyncio.Event()
        self._changed = asyncio.Event()
        self._error: BrokerError | None = None
        self.is_over = False
        """The stream was deleted, or can't be read: a new reader is needed."""
        self._reading = self._begin(start)
        self.n_followers = 0

    async def attached(self) -> None:
        """Return when events can come. Raises `BrokerError`."""
        reading, opened = self._reading, self._opened
        waiting = asyncio.create_task(opened.wait(), name="attached")
        try:
            await asyncio.wait({reading, waiting}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        self.raise_error()

    def reach_back(self, offset: int) -> None:
        """Begin again at this offset where nothing was read yet and it lies before our start."""
        if not self._kept and offset < self.covered_from and not self.is_over:
            self._reading.cancel()
            self.covered_from = offset
            self._reading = self._begin(offset)

    def find(self, offset: int) -> EncodedEvents | None:
        """The first message that is kept at this offset or behind it."""
        return next((message for message in self._kept if message.offset >= offset), None)

    async def more(self) -> None:
        """Return when something has come, or nothing comes any more. Raises `BrokerError`."""
        if not self.is_over:
            changed = self._changed
            self._wanted.set()
            await changed.wait()
        self.raise_error()

    async def close(self) -> None:
        self._reading.cancel()
        await asyncio.wait({self._reading})

    def _begin(self, start: int) -> "asyncio.Task[None]":
        self._opened = asyncio.Event()
        return asyncio.create_task(self._read(start), name=f"read {self._stream.name} for all")

    async def _read(self, start: int) -> None:
        try:
            await self._read_on(start)
        except BrokerError as error:
            self._error = error
        except Exception:
            log.exception("reading %s for its followers broke", self._stream.name)
            self._error = BrokerUnavailable("events could not be read; the gateway's log says why")
        self.is_over = True
        self._announce()

    async def _read_on(self, start: int) -> None:
        reading = follow(
            self._broker,
            self._stream,
            RunEvent,
            start=start or "first",
            prefetch=PREFETCH,
            aside=True,
        )
        async with reading as inbox:
            self._opened.set()
            await self._wanted.wait()
            async for claims in inbox:
                self._keep(encoded(claims))
                for claim in claims:
                    claim.done()
                self._wanted.clear()
                self._announce()
                await self._wanted.wait()

    def _keep(self, message: EncodedEvents) -> None:
        self._kept.append(message)
        self._n_bytes += message.size_bytes
        while self._n_bytes > self._kept_bytes and len(self._kept) > 1:
            dropped = self._kept.popleft()
            self._n_bytes -= dropped.size_bytes
            self.covered_from = dropped.offset + 1

    def _announce(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def raise_error(self) -> None:
        """Raises `BrokerError` if reading ended by one."""
        if self._error is not None:
            raise type(self._error)(*self._error.args)
