"""Heartbeats: at once, at every change, and never a reason to stop working."""

import asyncio
from contextlib import suppress

import pytest
from tests.support.factories import make_heartbeats_requested
from tests.support.items import heartbeat
from tests.support.patience import PATIENCE_S

from warren_broker.errors import BrokerClosed, BrokerUnavailable
from warren_broker.inbox import listen
from warren_broker.memory import MemoryBroker, open_memory
from warren_broker.topology import HEARTBEAT_REQUESTS, WORKERS, Address
from warren_broker.worker.draining import Draining
from warren_broker.worker.heartbeat import announce, beat
from warren_schemas.codec.wire import encode
from warren_schemas.control import DrainWorker, Heartbeat
from warren_schemas.envelope import Envelope
from warren_schemas.ids import WorkerId

ENV_7 = WorkerId("env_7")


async def test_a_worker_is_heard_at_once_and_when_it_changed() -> None:
    n_done, changed = 0, asyncio.Event()

    def describe() -> Heartbeat:
        return heartbeat("env_7").model_copy(update={"n_done": n_done})

    async with (
        asyncio.timeout(PATIENCE_S),
        open_memory() as broker,
        listen(broker, WORKERS, Heartbeat) as inbox,
    ):
        beating = asyncio.create_task(
            beat(broker, describe, draining=Draining(ENV_7), changed=changed)
        )
        (first,) = await anext(inbox)
        assert (first.item.worker, first.item.n_done) == ("env_7", 0)
        n_done = 5
        changed.set()
        (second,) = await anext(inbox)
        assert second.item.n_done == 5
        (third,) = await anext(inbox)  # nothing changed: the interval has passed
        assert third.item.envelope.id != second.item.envelope.id
        beating.cancel()
        with suppress(asyncio.CancelledError):
            await beating


class Noted(asyncio.Event):
    """Set by what a worker was told; `beat` clears it, so it remembers."""

    def __init__(self) -> None:
        super().__init__()
        self.was_set = asyncio.Event()

    def set(self) -> None:
        super().set()
        self.was_set.set()


async def test_a_worker_is_heard_when_a_gateway_asks() -> None:
    changed = Noted()
    async with asyncio.timeout(PATIENCE_S), open_memory() as broker:
        await broker.declare(HEARTBEAT_REQUESTS)
        beating = asyncio.create_task(
            beat(broker, lambda: heartbeat("env_7"), draining=Draining(ENV_7), changed=changed)
        )
        while not changed.was_set.is_set():  # nobody keeps an event: say it until it is heard
            await broker.publish(
                HEARTBEAT_REQUESTS, encode([make_heartbeats_requested()]), message_id="msg_1"
            )
            await asyncio.sleep(0)
        beating.cancel()
        with suppress(asyncio.CancelledError):
            await beating


async def test_a_worker_that_is_drained_says_so_and_others_are_not() -> None:
    draining = Draining(ENV_7)

    def describe() -> Heartbeat:
        return heartbeat("env_7").model_copy(update={"is_draining": draining.is_draining})

    async with (
        asyncio.timeout(PATIENCE_S),
        open_memory() as broker,
        listen(broker, WORKERS, Heartbeat) as inbox,
    ):
        beating = asyncio.create_task(beat(broker, describe, draining=draining))
        for is_drained in (True, False):
            while draining.is_draining is not is_drained:
                for worker, wanted in (("env_8", not is_drained), ("env_7", is_drained)):
                    order = DrainWorker(
                        envelope=Envelope(), worker=WorkerId(worker), is_drained=wanted
                    )
                    await broker.publish(
                        HEARTBEAT_REQUESTS, encode([order]), message_id=order.envelope.id
                    )
                await asyncio.sleep(0)
            async for claims in inbox:
                if claims[0].item.is_draining is is_drained:
                    break
        beating.cancel()
        with suppress(asyncio.CancelledError):
            await beating


class DeafBroker(MemoryBroker):
    """A broker that is away."""

    def __init__(self) -> None:
        pass

    async def publish(
        self, address: Address, body: bytes, *, message_id: str, timeout_s: float = 90.0
    ) -> None:
        raise BrokerUnavailable("nobody there")


async def test_a_broker_that_is_away_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    await announce(DeafBroker(), heartbeat("env_7"))
    assert "heartbeat of env_7 not published: nobody there" in caplog.text


async def test_a_closed_broker_ends_the_heartbeats() -> None:
    async with open_memory() as broker:
        await broker.close()
        with pytest.raises(BrokerClosed):
            await asyncio.wait_for(beat(broker, heartbeat, draining=Draining(ENV_7)), PATIENCE_S)
