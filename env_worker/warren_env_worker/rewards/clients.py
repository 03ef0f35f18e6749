"""The reward services' clients of this process: those that ask, and the last ones that did.

Invariants: one owner's episodes that ask in the same way share a client, so that their requests go
together and keep to one `in_flight`; what one owner's episodes send can neither spoil nor hold up another's
requests. A client that is asking stays; of the others at most `MAX_IDLE` do, and they hold no connection.
"""

import os
from typing import NamedTuple

from warren_env_worker.reach.service import Service
from warren_env_worker.rewards.scored import Scored
from warren_env_worker.rewards.service import RewardService
from warren_env_worker.rewards.settings import ServiceReward

MAX_IDLE = 32


class Asker(NamedTuple):
    owner: str
    service: Service
    settings: str
    """`ServiceReward` as JSON."""


class RewardClients:
    """For one event loop."""

    def __init__(self) -> None:
        self._clients: dict[tuple[int, Asker], RewardService] = {}
        """By process, too: a forked one finds those of its parent, which are not for its loop. The one that
        was asked last comes last."""

    def __len__(self) -> int:
        return len(self._clients)

    async def score(self, asker: Asker, scored: Scored) -> float:
        """Raises `RewardFailed`."""
        key = os.getpid(), asker
        client = self._clients.pop(key, None) or _made(asker)
        self._clients[key] = client
        try:
            return await client.score(scored)
        finally:
            self._forget_idle()

    def _forget_idle(self) -> None:
        idle = [key for key, client in self._clients.items() if client.is_idle]
        for key in idle[: max(0, len(idle) - MAX_IDLE)]:
            del self._clients[key]


def _made(asker: Asker) -> RewardService:
    return RewardService(asker.service, ServiceReward.model_validate_json(asker.settings))
