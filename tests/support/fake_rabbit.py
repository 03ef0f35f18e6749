"""As much of a RabbitMQ server as it takes to open channels, in this process.

It answers what it must and no more, keeps every frame that came, and says what a test tells it to:
for what a real server does too seldom to wait for. Like RabbitMQ it hangs up on who opens a channel
that is there, or closes one that is not.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial

from pamqp import commands, frame
from pamqp.base import Frame
from pamqp.body import ContentBody
from pamqp.common import FieldTable
from tests.support.patience import PATIENCE_S

_PROPERTIES: FieldTable = {"capabilities": {"basic.nack": True, "publisher_confirms": True}}
_PROTOCOL_HEADER_BYTES = 8
_HEAD_BYTES = 7
"""Of a frame: type, channel, length."""

Came = tuple[int, object]
"""A frame and its channel."""


class FakeRabbit:
    def __init__(self) -> None:
        self.url = ""
        self.came: list[Came] = []
        self.is_reading = asyncio.Event()
        """Cleared: nothing is taken from the socket any more."""
        self.is_reading.set()
        self.is_confirming = True
        self.delay_s = 0.0
        """How long what it says is on its way."""
        self._open: set[int] = set()
        self._closing: set[int] = set()
        """Channels that it has closed, and whose end was not agreed to yet."""
        self._news = asyncio.Condition()
        self._writer: asyncio.StreamWriter | None = None

    def say(self, channel: int, said: Frame) -> None:
        assert self._writer is not None
        if isinstance(said, commands.Channel.Close):
            self._open.discard(channel)
            self._closing.add(channel)
        write = partial(self._writer.write, frame.marshal(said, channel))
        asyncio.get_running_loop().call_later(self.delay_s, write)

    def _answer(self, channel: int, body: object) -> None:
        if self._is_breach(channel, body):
            self.say(0, commands.Connection.Close(504, "CHANNEL_ERROR", 0, 0))
        match body:
            case commands.Channel.Open():
                self._open.add(channel)
            case commands.Channel.Close():
                self._open.discard(channel)
            case commands.Channel.CloseOk():
                self._closing.discard(channel)
            case _:
                pass
        if isinstance(body, ContentBody) and not self.is_confirming:
            return
        if (answer := _answer(body)) is not None:
            self.say(channel, answer)

    def _is_breach(self, channel: int, body: object) -> bool:
        is_there = channel in self._open | self._closing
        match body:
            case commands.Channel.Open():
                return is_there
            case commands.Channel.Close():
                return not is_there
            case _:
                return False

    @property
    def n_channels(self) -> int:
        return len(self._open | self._closing)

    async def until(self, is_it: Callable[[Came], bool]) -> Came:
        """The first frame like this, once it has come."""
        async with asyncio.timeout(PATIENCE_S), self._news:
            await self._news.wait_for(lambda: any(map(is_it, self.came)))
        return next(filter(is_it, self.came))

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        try:
            await reader.readexactly(_PROTOCOL_HEADER_BYTES)
            self.say(0, commands.Connection.Start(0, 9, _PROPERTIES, "PLAIN"))
            while True:
                await self.is_reading.wait()
                channel, body = await _read(reader)
                self._answer(channel, body)
                async with self._news:
                    self.came.append((channel, body))
                    self._news.notify_all()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # it hung up
        finally:
            writer.close()


async def _read(reader: asyncio.StreamReader) -> Came:
    head = await reader.readexactly(_HEAD_BYTES)
    rest = await reader.readexactly(int.from_bytes(head[3:]) + 1)
    _, channel, body = frame.unmarshal(head + rest)
    return channel, body


def _answer(asked: object) -> Frame | None:
    match asked:
        case commands.Connection.StartOk():
            return commands.Connection.Tune(2047, 131072, 60)
        case commands.Connection.Open():
            return commands.Connection.OpenOk()
        case commands.Connection.Close():
            return commands.Connection.CloseOk()
        case commands.Channel.Open():
            return commands.Channel.OpenOk()
        case commands.Channel.Close():
            return commands.Channel.CloseOk()
        case commands.Basic.Qos():
            return commands.Basic.QosOk()
        case commands.Confirm.Select():
            return commands.Confirm.SelectOk()
        case ContentBody():  # the first message of its channel, and no large one
            return commands.Basic.Ack(1)
        case _:
            return None


@asynccontextmanager
async def fake_rabbit() -> AsyncGenerator[FakeRabbit]:
    fake = FakeRabbit()
    server = await asyncio.start_server(fake.serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        fake.url = f"amqp://guest:guest@127.0.0.1:{port}/"
        yield fake
