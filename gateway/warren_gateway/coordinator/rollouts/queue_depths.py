"""How many messages wait in a run's queues, for its metrics, and whether the broker answers at all."""

import asyncio
import logging

from warren_broker.errors import BrokerUnavailable
from warren_broker.port import Broker
from warren_broker.topology import WorkQueue, generate, results
from warren_gateway.coordinator.state.coordinator import CoordinatorState
from warren_gateway.probe import within
from warren_gateway.runs.ownership import compare_queues, interact_queues

DEPTH_INTERVAL_S = 2.0
"""Time between two samples of the queues' depths; a gauge has no event to wait for."""
DEPTH_S = 3.0
"""A broker that takes longer to tell a depth is away."""

log = logging.getLogger(__name__)


async def watch_queues(state: CoordinatorState, broker: Broker) -> None:
    """Keep `state.observed.queue_depths` and `state.observed.is_broker_away` up to date; never returns."""
    while True:
        try:
            for tag, queue in _queues(state).items():
                asking = within(DEPTH_S, broker.depth(queue))
                state.observed.queue_depths[tag] = float(await asking or 0)
            state.observed.is_broker_away = False
        except BrokerUnavailable as error:
            log.info("%s: queue depths are unknown: %s", state.run, error)
            state.observed.is_broker_away = True
        await asyncio.sleep(DEPTH_INTERVAL_S)


def _queues(state: CoordinatorState) -> dict[str, WorkQueue]:
    """By what their metric is called."""
    queues = {"queue/results": results(state.model)}
    if state.plays_episodes:
        queues["queue/generate"] = generate(state.spec.base_model)
    if state.uses_environments:
        for name, queue in interact_queues(state.config, state.owner).items():
            queues[f"queue/interact/{name}"] = queue
        comparing = state.rollouts.comparing
        for name, queue in compare_queues(state.config, state.owner, comparing).items():
            queues[f"queue/compare/{name}"] = queue
    return queues
