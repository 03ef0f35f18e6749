"""Brokers through a gateway, for the contract suite, and frames by hand for the rude tests."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from aiohttp import WSCloseCode, web

from warren_broker.port import Broker, Consumer, DeadLetter, SeenT, StreamStart
from warren_broker.remote import RemoteBroker, open_remote
from warren_broker.remote.frames import HEARTBEAT_S, MAX_FRAME_BYTES, PATH, Hello, Welcome, pack
from warren_broker.topology import Address, Home, Stream, Topic, WorkQueue
from warren_gateway.remote.session import (
    MAX_BYTES,
    MAX_CALLS,
    Misconduct,
    RemoteSession,
    read_frame,
    receive,
)


class EverythingGranted:
    """The contract is about the transport; who may do what is tested by itself."""

    def declare(self, address: Address) -> None: ...
    def consume(self, source: WorkQueue | Home | Topic) -> None: ...
    async def publish(self, address: Address, body: bytes) -> None: ...
    async def give_up(self, origin: WorkQueue | Home, body: bytes) -> None: ...
    async def show(self, source: WorkQueue | Home | Topic, body: bytes) -> Collection[bytes]:
        return (body,)


@asynccontextmanager
async def gateway_for_all(
    broker: Broker, *, heartbeat_s: float = HEARTBEAT_S
) -> AsyncGenerator[str]:
    """The URL of a gateway that does everything that its remote workers ask for."""

    async def serve(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(
            timeout=1.0, heartbeat=heartbeat_s, max_msg_size=MAX_FRAME_BYTES, compress=False
        )
        await socket.prepare(request)
        code, reason = WSCloseCode.GOING_AWAY, ""
        try:
            hello, _ = read_frame(await receive(socket) or b"")
            assert isinstance(hello, Hello)
            welcome = Welcome(owner="ann", max_calls=MAX_CALLS, max_bytes=MAX_BYTES)
            await socket.send_bytes(pack(welcome))
            await RemoteSession(socket, broker, EverythingGranted()).run()
        except Misconduct as misconduct:
            code, reason = misconduct.code, str(misconduct)
        await socket.close(code=code, message=reason.encode()[:120])
        return socket

    app = web.Application()
    app.router.add_route("GET", PATH, serve)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


class RemotePart:
    """The whole port: what an env worker uses goes through the gateway, the rest to the broker itself."""

    def __init__(self, remote: RemoteBroker, direct: Broker) -> None:
        self._remote = remote
        self._direct = direct
        self.description = remote.description
        self.is_durable = direct.is_durable

    async def declare(self, *addresses: Address) -> None:
        await self._remote.declare(*addresses)

    async def publish(
        self, address: Address, body: bytes, *, message_id: str, timeout_s: float = 90.0
    ) -> None:
        await self._remote.publish(address, body, message_id=message_id, timeout_s=timeout_s)

    def consume(
        self, queue: WorkQueue | Home, *, prefetch: int
    ) -> AbstractAsyncContextManager[Consumer]:
        return self._remote.consume(queue, prefetch=prefetch)

    def subscribe(self, topic: Topic) -> AbstractAsyncContextManager[Consumer]:
        return self._remote.subscribe(topic)

    async def dead_letter(
        self, body: bytes, *, origin: WorkQueue | Home, reason: str, message_id: str
    ) -> None:
        await self._remote.dead_letter(body, origin=origin, reason=reason, message_id=message_id)

    async def close(self) -> None:
        await self._remote.close()

    async def delete(self, *addresses: Address) -> None:
        await self._direct.delete(*addresses)

    async def tidy(self) -> None:
        await self._direct.tidy()

    def stop_declaring(self, *addresses: Address) -> None:
        self._direct.stop_declaring(*addresses)

    def read(
        self, stream: Stream, *, start: StreamStart, prefetch: int = 200, aside: bool = False
    ) -> AbstractAsyncContextManager[Consumer]:
        return self._direct.read(stream, start=start, prefetch=prefetch, aside=aside)

    async def depth(self, queue: WorkQueue | Home) -> int | None:
        return await self._direct.depth(queue)

    async def dead_letters(self, *, limit: int = 100) -> list[DeadLetter]:
        return await self._direct.dead_letters(limit=limit)

    async def look_at_dead_letters(
        self, look: Callable[[DeadLetter], SeenT | None], *, limit: int, max_bytes: int
    ) -> list[SeenT]:
        return await self._direct.look_at_dead_letters(look, limit=limit, max_bytes=max_bytes)

    async def requeue_dead_letter(self, letter_id: str) -> bool:
        return await self._direct.requeue_dead_letter(letter_id)

    async def drop_dead_letters(self, letter_ids: Collection[str]) -> int:
        return await self._direct.drop_dead_letters(letter_ids)

    async def drop_dead_letter(self, letter_id: str) -> bool:
        return await self._direct.drop_dead_letter(letter_id)


@asynccontextmanager
async def open_remote_part(url: str, direct: Broker, name: str) -> AsyncGenerator[Broker]:
    worker = "".join(c if c.isalnum() else "_" for c in f"{name}_{id(asyncio.current_task())}")
    async with open_remote(url, api_key="key", worker=worker) as remote:
        yield RemotePart(remote, direct)
