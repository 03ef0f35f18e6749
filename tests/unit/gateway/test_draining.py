"""Draining a worker: what an admin wants is kept, and the worker is told until it says so."""

import asyncio
from contextlib import suppress

import pytest
from tests.support.access import ADMIN, Access
from tests.support.gateway import Gateway, heartbeat
from tests.support.gateway_fixtures import connected
from tests.support.patience import PATIENCE_S

import warren
from warren import GatewayError, NotFound
from warren_broker.inbox import listen
from warren_broker.port import Broker
from warren_broker.topology import HEARTBEAT_REQUESTS
from warren_gateway.scheduling.draining import Draining
from warren_schemas.control import DrainWorker, WorkerRole
from warren_schemas.users.access import CreateKey, KeyScope


async def admin_of(gateway: Gateway) -> warren.Client:
    parts, access = gateway.services, Access(gateway.store)
    access.callers, access.keys, access.users = parts.callers, parts.keys, parts.users
    await access.new_key("local")
    made = await access.keys.create(ADMIN, CreateKey(user="local", scopes=(KeyScope.ADMIN,)))
    return warren.connect(gateway.url, made.key, retry_s=2.0)


@pytest.mark.parametrize("undo", [False, True])
async def test_a_worker_is_told_again_until_its_heartbeats_say_so(
    gateway: Gateway, broker: Broker, undo: bool
) -> None:
    registry = gateway.services.registry
    registry.hear(heartbeat("t1", WorkerRole.TRAINER, "tiny", is_draining=undo))
    await broker.declare(HEARTBEAT_REQUESTS)
    async with (
        asyncio.timeout(PATIENCE_S),
        await admin_of(gateway) as admin,
        listen(broker, HEARTBEAT_REQUESTS, DrainWorker) as inbox,
    ):
        await admin.access.drain_worker("t1")
        if undo:
            await admin.access.drain_worker("t1", undo=True)
        # Another gateway of the same store, or this one after a restart.
        other = Draining(gateway.store, broker, registry)
        telling = asyncio.create_task(other.run())
        for _ in range(2):
            (claim,) = await anext(inbox)
            assert (claim.item.worker, claim.item.is_drained) == ("t1", not undo)
        registry.hear(heartbeat("t1", WorkerRole.TRAINER, is_draining=not undo, clock_ns=1))
        (view,) = await admin.workers()
        assert view.is_draining is not undo
        telling.cancel()
        with suppress(asyncio.CancelledError):
            await telling


async def test_a_worker_that_is_not_online_is_not_found(gateway: Gateway) -> None:
    async with await admin_of(gateway) as admin:
        with pytest.raises(NotFound, match="No worker t9 is online"):
            await admin.access.drain_worker("t9")


async def test_only_admins_drain(gateway: Gateway) -> None:
    gateway.services.registry.hear(heartbeat("t1", WorkerRole.TRAINER, "tiny"))
    async with connected(gateway) as ann:
        with pytest.raises(GatewayError, match="admin"):
            await ann.access.drain_worker("t1")
