"""As much of a RabbitMQ server as it takes to open channels, in this process.

It answers what it must and no more, keeps every frame that came, and says what a test tells it to:
for what a real server does too seldom to wait for.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from pamqp import commands, frame
from pamqp.base import Frame
from pamqp.common import FieldTable

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
        self._news = asyncio.Condition()
        self._writer: asyncio.StreamWriter | None = None

    def say(self, channel: int, said: Frame) -> None:
        assert self._writer is not None
        self._writer.write(frame.marshal(said, channel))

    async def until(self, is_it: Callable[[Came], bool]) -> Came:
        """The first frame like this, once it has come."""
        async with asyncio.timeout(30.0), self._news:
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
                if (answer := _answer(body)) is not None:
                    self.say(channel, answer)
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
