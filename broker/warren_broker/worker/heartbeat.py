"""Heartbeats: a worker says that it is alive, what it offers and what it holds."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Sequence

from warren_broker.errors import BrokerError, BrokerUnavailable
from warren_broker.inbox import hear
from warren_broker.port import WorkBroker
from warren_broker.topology import HEARTBEAT_REQUESTS, WORKERS
from warren_broker.worker.draining import Draining
from warren_schemas.codec.wire import encode
from warren_schemas.control import DrainWorker, Heartbeat, HeartbeatsRequested

INTERVAL_S = 2.0
MISSED_UNTIL_GONE = 3
"""A worker that was silent for this many of its intervals counts as gone."""

log = logging.getLogger(__name__)


async def beat(
    broker: WorkBroker,
    describe: Callable[[], Heartbeat],
    *,
    draining: Draining,
    changed: asyncio.Event | None = None,
) -> None:
    """Publish `describe()` now, every interval, and at once when `changed` is set, `draining` changes or a gateway
    asks.

    Never returns.
    """
    changed = changed or asyncio.Event()
    listening = asyncio.create_task(
        _note_requests(broker, changed, draining), name="heartbeat requests"
    )
    try:
        while True:
            await announce(broker, describe())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(INTERVAL_S):
                    await changed.wait()
            changed.clear()
    finally:
        listening.cancel()
        await asyncio.wait([listening])


async def _note_requests(broker: WorkBroker, requested: asyncio.Event, draining: Draining) -> None:
    """Without it a gateway only waits for the interval, and the worker is not drained."""

    def tell(items: Sequence[HeartbeatsRequested | DrainWorker]) -> None:
        for item in items:
            if isinstance(item, DrainWorker):
                draining.follow(item)
        requested.set()

    try:
        await broker.declare(HEARTBEAT_REQUESTS)
        await hear(broker, HEARTBEAT_REQUESTS, (HeartbeatsRequested, DrainWorker), tell)
    except BrokerError as error:
        log.warning("requests for heartbeats are not heard: %s", error)


async def announce(broker: WorkBroker, heartbeat: Heartbeat) -> None:
    """Publish one heartbeat, with the time; a broker that is away only means that nobody hears it."""
    dated = heartbeat.model_copy(update={"clock_ns": time.monotonic_ns()})
    try:
        await broker.publish(
            WORKERS, encode([dated]), message_id=heartbeat.envelope.id, timeout_s=INTERVAL_S
        )
    except BrokerUnavailable as error:
        log.warning("heartbeat of %s not published: %s", heartbeat.worker, error)
