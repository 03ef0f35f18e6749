"""The remote broker under faults: sockets that are cut or half-open, gateways that come and go."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.chaos.proxy import Proxy
from tests.support.brokers import PATIENCE_S, assert_quiet, publish_bodies, take
from tests.support.remote import gateway_for_all

from warren_broker.errors import BrokerClosed, BrokerUnavailable, NotAllowed
from warren_broker.memory import MemoryHub, open_hub
from warren_broker.remote import RemoteBroker, open_remote
from warren_broker.remote.frames import (
    FROM_GATEWAY,
    FROM_WORKER,
    HEARTBEAT_S,
    Delivered,
    FrameError,
    Publish,
    Settle,
    address_of,
    pack,
    ref_of,
    unpack,
)
from warren_broker.remote.window import Window
from warren_broker.topology import Address, Home, Stream, Topic, WorkQueue
from warren_schemas.codec.frame import MAX_MESSAGE_BYTES

QUEUE = WorkQueue("work")
HOME = Home("home", WorkQueue("fallback"), grace_s=30.0)


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2])


class Site:
    """A hub, a gateway before it, and a proxy on the way to the gateway."""

    def __init__(self, hub: MemoryHub, proxy: Proxy) -> None:
        self.hub = hub
        self.proxy = proxy
        self.direct = hub.client("direct")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.proxy.port}"

    @asynccontextmanager
    async def gateway(self, *, heartbeat_s: float = HEARTBEAT_S) -> AsyncGenerator[None]:
        """One that workers are led to while the context lasts, with a broker client of its own."""
        client = self.hub.client("gateway")
        async with gateway_for_all(client, heartbeat_s=heartbeat_s) as url:
            self.proxy.upstream_ports = [port_of(url)]
            yield
            self.proxy.upstream_ports = []
            await client.close()  # its workers' sessions end with it

    @asynccontextmanager
    async def worker(self, *, heartbeat_s: float = HEARTBEAT_S) -> AsyncGenerator[RemoteBroker]:
        opening = open_remote(self.url, api_key="key", worker="env_1", heartbeat_s=heartbeat_s)
        async with opening as broker:
            yield broker


@pytest.fixture
async def site() -> AsyncGenerator[Site]:
    async with open_hub() as hub:
        proxy = Proxy()
        await proxy.start()
        yield Site(hub, proxy)
        await proxy.close()


async def test_a_cut_socket_brings_back_what_was_not_acked(site: Site) -> None:
    async with (
        site.gateway(),
        site.worker() as worker,
        worker.consume(QUEUE, prefetch=5) as consumer,
    ):
        await publish_bodies(site.direct, QUEUE, b"1", b"2", b"3")
        first, second, third = [await take(consumer) for _ in range(3)]
        await first.ack()
        await worker.declare(QUEUE)  # answered, so the ack before it has arrived
        site.proxy.cut()
        again = [await take(consumer), await take(consumer)]
        assert {delivery.body for delivery in again} == {b"2", b"3"}
        assert {delivery.n_deliveries for delivery in again} == {2}
        await second.ack()  # of a session that is over: it settles nothing
        await third.ack()
        for delivery in again:
            await delivery.ack()
        await assert_quiet(consumer)


async def test_a_home_is_still_there_after_a_short_cut(site: Site) -> None:
    async with (
        site.gateway(),
        site.worker() as worker,
        worker.consume(HOME, prefetch=5) as consumer,
    ):
        await publish_bodies(site.direct, WorkQueue(HOME.name), b"1")
        await take(consumer)
        site.proxy.cut()
        assert (await take(consumer)).n_deliveries == 2
        assert await site.direct.depth(HOME.fallback) == 0


async def test_a_half_open_socket_is_found_and_replaced(site: Site) -> None:
    """Nothing comes through, and nobody hangs up: heartbeats tell, on both sides."""
    async with (
        site.gateway(heartbeat_s=1.0),
        site.worker(heartbeat_s=1.0) as worker,
        worker.consume(QUEUE, prefetch=5) as consumer,
    ):
        await publish_bodies(site.direct, QUEUE, b"1")
        await take(consumer)
        site.proxy.abandon()
        again = await take(consumer)
        assert again.body == b"1"
        assert again.n_deliveries >= 2  # a pause of the machine looks like another lost socket
        await again.ack()


async def test_a_publish_waits_for_the_next_gateway_and_keeps_its_id(site: Site) -> None:
    async with site.gateway():
        worker = site.worker()
        remote = await worker.__aenter__()
        await remote.declare(QUEUE)
        site.proxy.upstream_ports = []
        site.proxy.cut()
        publishing = asyncio.create_task(remote.publish(QUEUE, b"1", message_id="the-same"))
    async with site.gateway():
        await asyncio.wait_for(publishing, PATIENCE_S)
        async with remote.consume(QUEUE, prefetch=1) as consumer:
            delivery = await take(consumer)
            assert (delivery.body, delivery.message_id) == (b"1", "the-same")
            await delivery.ack()
        await worker.__aexit__(None, None, None)


async def test_consumers_go_on_at_another_gateway(site: Site) -> None:
    async with site.gateway():
        worker = site.worker()
        remote = await worker.__aenter__()
        consuming, hearing = remote.consume(QUEUE, prefetch=1), remote.subscribe(Topic("news"))
        consumer, listener = await consuming.__aenter__(), await hearing.__aenter__()
        await publish_bodies(site.direct, QUEUE, b"1")
        await take(consumer)
    async with site.gateway():
        again = await take(consumer)
        assert (again.body, again.n_deliveries) == (b"1", 2)
        await again.ack()
        telling = asyncio.create_task(tell_until_cancelled(site))
        assert (await take(listener)).body == b"news"
        telling.cancel()
        await hearing.__aexit__(None, None, None)
        await consuming.__aexit__(None, None, None)
        await worker.__aexit__(None, None, None)


async def tell_until_cancelled(site: Site) -> None:
    """An event reaches who listens at the moment; the listener comes back at a moment of its own."""
    while True:
        await site.direct.publish(Topic("news"), b"news", message_id="1")
        await asyncio.sleep(0.02)


async def test_what_was_declared_is_declared_again(site: Site) -> None:
    """A gateway with an in-process broker has forgotten its queues."""
    async with site.gateway():
        worker = site.worker()
        remote = await worker.__aenter__()
        await remote.declare(QUEUE)
    await site.direct.delete(QUEUE)
    async with site.gateway():
        await remote.publish(QUEUE, b"1", message_id="1", timeout_s=PATIENCE_S)
        assert await site.direct.depth(QUEUE) == 1
        await worker.__aexit__(None, None, None)


async def test_without_a_gateway_a_call_ends_at_its_deadline(site: Site) -> None:
    async with site.gateway():
        worker = site.worker()
        remote = await worker.__aenter__()
    with pytest.raises(BrokerUnavailable, match=r"did not confirm within 0\.2 s"):
        await remote.publish(QUEUE, b"1", message_id="1", timeout_s=0.2)
    await worker.__aexit__(None, None, None)
    with pytest.raises(BrokerClosed):
        await remote.publish(QUEUE, b"1", message_id="1")


async def test_what_no_gateway_would_take_is_not_even_sent(site: Site) -> None:
    async with site.gateway(), site.worker() as worker:
        with pytest.raises(NotAllowed, match="bytes are more than"):
            await worker.publish(QUEUE, bytes(MAX_MESSAGE_BYTES + 1), message_id="1")
        await worker.declare(QUEUE)


async def test_the_window_bounds_calls_and_bytes_and_lets_in_in_order() -> None:
    window, inside, done = Window(max_calls=3, max_bytes=10), list[int](), asyncio.Event()

    async def call(n_bytes: int) -> None:
        async with window.enter(n_bytes):
            inside.append(n_bytes)
            await done.wait()

    tasks = [asyncio.create_task(call(n)) for n in (6, 4, 1, 20)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert inside == [6, 4]
    tasks[2].cancel()
    await asyncio.wait([tasks[2]])
    done.set()
    await asyncio.wait_for(asyncio.gather(tasks[0], tasks[1], tasks[3]), PATIENCE_S)
    assert inside == [6, 4, 20]


@pytest.mark.parametrize(
    "address", [QUEUE, WorkQueue("w", 5, 1.0), HOME, Stream("s", 1.0, 2), Topic("t")], ids=str
)
def test_addresses_come_through_unchanged(address: Address) -> None:
    publish = Publish(call=1, address=ref_of(address), message_id="m", timeout_s=1.0)
    frame, body = unpack(pack(publish, b"body"), FROM_WORKER)
    assert isinstance(frame, Publish)
    assert (address_of(frame.address), body) == (address, b"body")


@given(st.binary(max_size=200))
def test_whatever_the_bytes_a_frame_is_read_or_refused(data: bytes) -> None:
    with contextlib.suppress(FrameError):
        unpack(data, FROM_WORKER)
    with contextlib.suppress(FrameError):
        unpack(data, FROM_GATEWAY)


def test_a_body_comes_only_behind_what_has_one() -> None:
    settle = Settle(consumer=1, delivery=1, how="ack")
    with pytest.raises(FrameError, match="has no body"):
        unpack(pack(settle, b"x"), FROM_WORKER)
    delivered = Delivered(consumer=1, delivery=1, message_id="m", n_deliveries=1)
    assert unpack(pack(delivered, b"x"), FROM_GATEWAY) == (delivered, b"x")
