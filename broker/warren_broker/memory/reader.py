"""Readers of streams in the in-process broker.

Invariants: offsets come once and in order; at most `prefetch` deliveries are unacknowledged; what
is kept in memory is read from there, everything older from disk, in the reader's own time.
"""

from collections import deque

from warren_broker.errors import BrokerError
from warren_broker.memory.stream_store import Record
from warren_broker.memory.streams import StreamLog, Streams
from warren_broker.waiting_consumer import WaitingConsumer

_READ_AT_ONCE = 64


class StreamDelivery:
    __slots__ = ("_reader", "_record")

    def __init__(self, record: Record, reader: "Reader") -> None:
        self._record = record
        self._reader: Reader | None = reader

    @property
    def body(self) -> bytes:
        return self._record.body

    @property
    def message_id(self) -> str:
        return self._record.message_id

    @property
    def n_deliveries(self) -> int:
        return 1

    @property
    def offset(self) -> int | None:
        return self._record.offset

    async def ack(self) -> None:
        if self._reader is not None:
            self._reader.acked()
            self._reader = None

    async def nack(self, *, delay_s: float = 0.0) -> None:
        raise BrokerError("a stream can't take a message back; read it again from its offset")

    async def dead_letter(self, reason: str) -> None:
        raise BrokerError("a message of a stream stays in the stream; it can't be given up")


class Reader(WaitingConsumer):
    def __init__(self, streams: Streams, stream: StreamLog, cursor: int, prefetch: int) -> None:
        super().__init__()
        self._streams = streams
        self._stream = stream
        self._cursor = cursor
        self._prefetch = prefetch
        self._n_unacked = 0
        self._from_disk: deque[Record] = deque()
        stream.followers[self] = None

    def appended(self) -> None:
        self._wake()

    def acked(self) -> None:
        self._n_unacked -= 1
        self._wake()

    async def stop(self) -> None:
        self.leave_source()

    def leave_source(self, error: Exception | None = None) -> None:
        self.end(error)
        self._stream.followers.pop(self, None)

    def _take(self) -> StreamDelivery | None:
        if self._n_unacked >= self._prefetch:
            return None
        if self._from_disk:
            record = self._from_disk.popleft()
        elif (record := self._stream.recent(self._cursor)) is None:
            return None
        self._cursor = record.offset + 1
        self._n_unacked += 1
        return StreamDelivery(record, self)

    async def _wait(self) -> None:
        if self._n_unacked < self._prefetch and self._cursor < self._stream.next_offset:
            await self._read_on()
        else:
            await super()._wait()

    async def _read_on(self) -> None:
        found = await self._streams.read(self._stream, self._cursor, _READ_AT_ONCE)
        if found:
            self._from_disk.extend(found)
        else:
            self._cursor = self._stream.tail_offset  # what lay before was dropped for its age
