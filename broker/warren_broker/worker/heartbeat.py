"""Heartbeats: a worker says that it is alive, what it offers and what it holds."""

import asyncio
import logging
from collections.abc import Callable

from warren_broker.errors import BrokerUnavailable
from warren_broker.port import WorkBroker
from warren_broker.topology import WORKERS
from warren_schemas.codec.wire import encode
from warren_schemas.control import Heartbeat

INTERVAL_S = 2.0
MISSED_UNTIL_GONE = 3
"""A worker that was silent for this many of its intervals counts as gone."""

log = logging.getLogger(__name__)


async def beat(
    broker: WorkBroker, describe: Callable[[], Heartbeat], *, changed: asyncio.Event | None = None
) -> None:
    """Publish `describe()` now, every interval, and at once when `changed` is set; never returns."""
    changed = changed or asyncio.Event()
    while True:
        await announce(broker, describe())
        try:
            async with asyncio.timeout(INTERVAL_S):
                await changed.wait()
        except TimeoutError:
            continue
        changed.clear()


async def announce(broker: WorkBroker, heartbeat: Heartbeat) -> None:
    """Publish one heartbeat; a broker that is away only means that nobody hears it."""
    try:
        await broker.publish(
            WORKERS, encode([heartbeat]), message_id=heartbeat.envelope.id, timeout_s=INTERVAL_S
        )
    except BrokerUnavailable as error:
        log.warning("heartbeat of %s not published: %s", heartbeat.worker, error)
