"""Whether a worker takes what is new: it does, until a gateway says that it is to be drained.

Invariant: an order that comes twice, or late, is the newest that a gateway gave or is given anew, for gateways go on
until the worker's heartbeats say what they want.
"""

import asyncio
import logging
from collections.abc import Callable

from warren_schemas.control import DrainWorker
from warren_schemas.ids import WorkerId

log = logging.getLogger(__name__)


class Draining:
    """Of one worker; it ends with its process."""

    def __init__(self, worker: WorkerId, on_change: Callable[[], None] = lambda: None) -> None:
        """`on_change` is called with every change, before anybody who waits for one goes on."""
        self._worker = worker
        self._on_change = on_change
        self._changed = asyncio.Event()
        self.is_draining = False

    def follow(self, order: DrainWorker) -> None:
        """Orders to other workers are passed over."""
        if order.worker != self._worker or order.is_drained == self.is_draining:
            return
        self.is_draining = order.is_drained
        log.info("%s %s", self._worker, "is drained" if self.is_draining else "takes work again")
        self._on_change()
        self._changed.set()
        self._changed = asyncio.Event()

    async def until(self, is_draining: bool) -> None:
        """Return once it is so."""
        while self.is_draining is not is_draining:
            await self._changed.wait()
