"""Hearing the workers of a site come up, by the heartbeats that everybody may hear."""

from collections.abc import Callable

from warren_broker.inbox import listen
from warren_broker.port import Broker
from warren_broker.topology import WORKERS
from warren_schemas.control import Heartbeat, WorkerRole

Tell = Callable[[str, str], None]
"""Told which part is ready, and what it offers."""


async def workers_ready(broker: Broker, tell: Tell) -> None:
    """Return once a sampler, a trainer and an env worker have said what they offer.

    It may take as long as a model takes to load; whoever waits sees which part is missing.
    """
    missing = set(WorkerRole)
    async with listen(broker, WORKERS, Heartbeat) as inbox:
        async for claims in inbox:
            for claim in claims:
                claim.done()
                beat = claim.item
                if beat.offers and beat.role in missing:
                    missing.remove(beat.role)
                    tell(beat.role, ", ".join(beat.offers))
            if not missing:
                return
