"""The batch publisher: items out, coalesced into messages.

Whatever is handed over for one destination within one turn of the event loop travels as one message
(up to `wire.MAX_ITEMS` items or about `wire.MAX_BATCH_BYTES`). There is no timer: a lone item leaves
at the end of the turn, many leave together. While a destination has `max_in_flight` unconfirmed
messages, items wait for it, and the next message is the fuller.

Invariants:
- `send` returns only after the broker has confirmed every message that holds one of its items, so
  whoever then settles what the items came from can't lose them.
- An error reaches the callers whose items were in the message, and nobody else; an item that can't
  be encoded fails its own caller only. A caller that is cancelled harms nobody.
- Items to one address leave in the order in which they were handed over.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from copy import copy
from functools import partial

from warren_broker.errors import BrokerClosed
from warren_broker.port import WorkBroker
from warren_broker.topology import Address
from warren_schemas.codec.wire import MAX_BATCH_BYTES, MAX_ITEMS, encode
from warren_schemas.envelope import Item
from warren_schemas.ids import new_message_id

MAX_IN_FLIGHT = 4
_FIRST_GUESS_BYTES = 32 * 1024
"""Taken for the size of an item of a kind that was never sent yet."""
UNENCODABLE = (ValueError, TypeError, LookupError, AttributeError)
"""What an item raises that can't be encoded: `WireError`, or that it is no valid item at all."""


class BatchPublisher:
    """Publishes items for many callers at once."""

    def __init__(
        self, broker: WorkBroker, *, max_in_flight: int = MAX_IN_FLIGHT, timeout_s: float = 90.0
    ) -> None:
        self.max_in_flight = max_in_flight
        self._broker = broker
        self._timeout_s = timeout_s
        self._destinations: dict[Address, _Destination] = {}
        self._sizes_bytes: dict[type[Item], float] = {}
        self._is_closed = False
        self._idle = asyncio.Event()

    async def send(self, address: Address, *items: Item) -> None:
        """Return when every item is confirmed. Raises what `Broker.publish` raises.

        Raises `WireError` for an item that no message can carry, `BrokerClosed` after `close`.
        """
        await self.send_all(address, items)

    async def send_all(self, address: Address, items: Sequence[Item]) -> None:
        """`send` for a list of items."""
        if self._is_closed:
            raise BrokerClosed("the batch publisher was closed; nothing more is sent")
        if not items:
            return
        destination = self._destinations.get(address)
        if destination is None:
            destination = self._destinations[address] = _Destination(self, address)
        await destination.add(items)

    async def close(self) -> None:
        """Wait for what is under way; take nothing new."""
        self._is_closed = True
        while self._destinations:
            self._idle.clear()
            await self._idle.wait()

    def retire(self, address: Address) -> None:
        """A destination has nothing to do any more."""
        del self._destinations[address]
        self._idle.set()

    def n_that_fit(self, kind: type[Item]) -> int:
        """How many items of this kind make a full message, as far as we have seen."""
        mean = self._sizes_bytes.get(kind, _FIRST_GUESS_BYTES)
        return max(1, min(MAX_ITEMS, int(MAX_BATCH_BYTES / mean)))

    def pack(self, items: list[Item]) -> bytes:
        """Encode, and learn how large items of this kind are."""
        body = encode(items)
        kind, size = type(items[0]), len(body) / len(items)
        self._sizes_bytes[kind] = (self._sizes_bytes.get(kind, size) + size) / 2
        return body

    async def publish(self, address: Address, body: bytes) -> None:
        await self._broker.publish(
            address, body, message_id=new_message_id(), timeout_s=self._timeout_s
        )


class _Submission:
    """What one caller handed over at once."""

    __slots__ = ("confirmed", "items", "n_taken", "n_unconfirmed")

    def __init__(self, items: Sequence[Item], confirmed: "asyncio.Future[None]") -> None:
        self.items = items
        self.confirmed = confirmed
        self.n_taken = 0
        self.n_unconfirmed = len(items)

    @property
    def is_empty(self) -> bool:
        """Nothing more to send, or nobody who waits for it."""
        return self.n_taken == len(self.items) or self.confirmed.done()

    def confirm(self, n_items: int) -> None:
        self.n_unconfirmed -= n_items
        if not self.n_unconfirmed and not self.confirmed.done():
            self.confirmed.set_result(None)

    def failed(self, error: BaseException) -> None:
        if not self.confirmed.done():
            self.confirmed.set_exception(copy(error))


_Batch = list[tuple[Item, _Submission]]


class _Destination:
    """One destination: what waits for it and what is on its way."""

    def __init__(self, batch_publisher: BatchPublisher, address: Address) -> None:
        self._batch_publisher = batch_publisher
        self._address = address
        self._waiting: deque[_Submission] = deque()
        self._publishing: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self._is_due = False

    def add(self, items: Sequence[Item]) -> "asyncio.Future[None]":
        submission = _Submission(items, self._loop.create_future())
        self._waiting.append(submission)
        self._wait_for_end_of_turn()
        return submission.confirmed

    def _wait_for_end_of_turn(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        """Send what waits, as far as the destination keeps up."""
        self._is_due = False
        while self._waiting and len(self._publishing) < self._batch_publisher.max_in_flight:
            if batch := self._next_batch():
                self._publish_batch(batch)
        if not self._waiting and not self._publishing:
            self._batch_publisher.retire(self._address)

    def _next_batch(self) -> _Batch:
        """The next message's items: of one kind, in order, no more than fit."""
        batch: _Batch = []
        limit = 1
        while self._waiting and len(batch) < limit:
            submission = self._waiting[0]
            if submission.is_empty:
                self._waiting.popleft()
                continue
            item = submission.items[submission.n_taken]
            if not batch:
                limit = self._batch_publisher.n_that_fit(type(item))
            elif type(item) is not type(batch[0][0]):
                break
            submission.n_taken += 1
            batch.append((item, submission))
        return batch

    def _publish_batch(self, batch: _Batch) -> None:
        try:
            body = self._batch_publisher.pack([item for item, _ in batch])
        except UNENCODABLE as error:
            if len(batch) == 1:
                batch[0][1].failed(error)
            else:
                self._publish_halves(batch)
            return
        if len(body) > 2 * MAX_BATCH_BYTES and len(batch) > 1:
            self._publish_halves(batch)
        else:
            self._publish(batch, body)

    def _publish_halves(self, batch: _Batch) -> None:
        middle = len(batch) // 2
        self._publish_batch(batch[:middle])
        self._publish_batch(batch[middle:])

    def _publish(self, batch: _Batch, body: bytes) -> None:
        publish = self._batch_publisher.publish(self._address, body)
        task = asyncio.create_task(publish, name=f"publish to {self._address.name}")
        self._publishing.add(task)
        task.add_done_callback(partial(self._published, batch))

    def _published(self, batch: _Batch, task: "asyncio.Task[None]") -> None:
        self._publishing.discard(task)
        error = BrokerClosed("stopped while sending") if task.cancelled() else task.exception()
        for _, submission in batch:
            if error is None:
                submission.confirm(1)
            else:
                submission.failed(error)
        self._wait_for_end_of_turn()
