"""How many messages wait in a run's queues, for its metrics, and whether the broker answers at all."""

import asyncio
import logging

from warren_broker.errors import BrokerUnavailable
from warren_broker.port import Broker
from warren_broker.topology import generate, results
from warren_gateway.coordinator.rollouts.ownership import interact_queues
from warren_gateway.coordinator.state import Memory
from warren_gateway.probe import within

DEPTH_INTERVAL_S = 2.0
"""Time between two samples of the queues' depths; a gauge has no event to wait for."""
DEPTH_S = 3.0
"""A broker that takes longer to tell a depth is away."""

log = logging.getLogger(__name__)


async def watch_queues(memory: Memory, broker: Broker) -> None:
    """Keep `memory.queue_depths` and `memory.is_broker_away` up to date; never returns."""
    queues = {"queue/results": results(memory.model)}
    if memory.plays_episodes:
        queues["queue/generate"] = generate(memory.spec.base_model)
        for name, queue in interact_queues(memory.config, memory.owner).items():
            queues[f"queue/interact/{name}"] = queue
    while True:
        try:
            for tag, queue in queues.items():
                asking = within(DEPTH_S, broker.depth(queue))
                memory.queue_depths[tag] = float(await asking or 0)
            memory.is_broker_away = False
        except BrokerUnavailable as error:
            log.info("%s: queue depths are unknown: %s", memory.run, error)
            memory.is_broker_away = True
        await asyncio.sleep(DEPTH_INTERVAL_S)
