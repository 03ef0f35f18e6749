"""Hearing the workers of a site come up, by the heartbeats that everybody may hear."""

from collections.abc import Collection

from warren_broker.inbox import listen
from warren_broker.port import Broker
from warren_broker.topology import WORKERS
from warren_schemas.control import Heartbeat, WorkerRole
from warren_up.start_view import StartListener


class _Expected:
    """What nobody has offered yet: each base model by each role that serves it, any environment."""

    def __init__(self, roles: Collection[str], base_models: Collection[str]) -> None:
        self._base_models = {WorkerRole(role): set(base_models) for role in roles}
        self._has_environments = False

    @property
    def is_empty(self) -> bool:
        return self._has_environments and not any(self._base_models.values())

    def news(self, beat: Heartbeat) -> list[str]:
        """What this worker is the first to offer."""
        if beat.role is WorkerRole.ENVIRONMENT:
            is_new = bool(beat.offers) and not self._has_environments
            self._has_environments |= is_new
            return list(beat.offers) if is_new else []
        missing = self._base_models.get(beat.role, set())
        new = [offer for offer in beat.offers if offer in missing]
        missing.difference_update(new)
        return new


async def workers_ready(
    broker: Broker,
    listener: StartListener,
    *,
    roles: Collection[str],
    base_models: Collection[str],
) -> None:
    """Return once each of these roles offers each of these base models, and an env worker something.

    It may take as long as a model takes to load; whoever waits sees which part is missing.
    """
    expected = _Expected(roles, base_models)
    async with listen(broker, WORKERS, Heartbeat) as inbox:
        async for claims in inbox:
            for claim in claims:
                claim.done()
                if new := expected.news(claim.item):
                    listener.ready(claim.item.role, ", ".join(new))
            if expected.is_empty:
                return
