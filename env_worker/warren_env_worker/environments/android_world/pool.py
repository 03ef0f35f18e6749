"""The servers that a run may play on, of which an episode takes one that is free and well.

Invariants: a server is asked how it is each time that it is taken, with its emulator; one that is not well is in
quarantine, and asked again when that has passed. A task that was left on it, by an episode that was killed, is torn down
first. Where none is well the episode fails, and says why of each.
"""

import contextlib
import os
from asyncio import timeout
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from warren_env_worker.environments.android_world.server import (
    AndroidFailed,
    AndroidServer,
    Refused,
    SlotLost,
)
from warren_env_worker.environments.android_world.slots import Slot, taken
from warren_env_worker.environments.android_world.tearing_down import tear_down
from warren_env_worker.permissions.retries import RetryLater, with_retries
from warren_env_worker.permissions.service import Service

WAIT_S = 540.0
"""For a slot that others have; a call of the environment may take a minute more."""

NOT_TORN_DOWN = "the last task could not be torn down"


class Held(NamedTuple):
    """A server that this episode has for itself."""

    server: AndroidServer
    slot: Slot

    async def leave(self) -> None:
        with contextlib.ExitStack() as stack:
            stack.callback(self.slot.release)
            await self.server.close()


class Pool:
    def __init__(
        self,
        services: Sequence[Service],
        folder: Path,
        *,
        patience_s: float,
        answer_s: float,
        width: int,
    ) -> None:
        """`folder` is where the slots of this machine are known; the picture of a screen has this width."""
        self._services = services
        self._folder = folder
        self._patience_s, self._answer_s, self._width = patience_s, answer_s, width
        self._reasons: dict[str, str] = {}
        """Why servers are left alone."""

    @property
    def reasons(self) -> str:
        return "; ".join(f"{url}: {reason}" for url, reason in sorted(self._reasons.items()))

    async def held(self) -> Held:
        """Raises `AndroidFailed` where no server is well, or none becomes free."""
        try:
            async with timeout(WAIT_S):
                return await with_retries(self._found, self._patience_s, self._none_is_well)
        except TimeoutError:
            raise AndroidFailed(
                f"all {len(self._services)} servers are taken by other episodes; lower max_in_flight, or add servers"
            ) from None

    async def lose(self, held: Held, reason: str) -> None:
        self._reasons[held.server.url] = reason
        held.slot.quarantine(reason)
        await held.leave()

    async def _found(self) -> Held:
        """Raises `RetryLater`."""
        is_busy = False
        first = os.getpid() % len(self._services)  # so that not all begin with the same
        for service in (*self._services[first:], *self._services[:first]):
            slot = taken(str(service.url), self._folder)
            if slot is None:
                is_busy = True
            elif (held := await self._checked(service, slot)) is not None:
                return held
        raise RetryLater(is_busy=is_busy)

    async def _checked(self, service: Service, slot: Slot) -> Held | None:
        """None, and the slot is free again, where it is in quarantine or should be."""
        server = AndroidServer(service, answer_s=self._answer_s, width=self._width)
        async with contextlib.AsyncExitStack() as stack:
            held = Held(server, slot)
            stack.push_async_callback(held.leave)
            try:
                if slot.quarantine_s <= 0:
                    await server.check_health()
                    await tear_down(server, slot)
                    stack.pop_all()
                    return held
            except SlotLost as lost:
                slot.quarantine(str(lost))
            except Refused:
                slot.quarantine(NOT_TORN_DOWN)
            self._reasons[server.url] = slot.reason
        return None

    def _none_is_well(self) -> AndroidFailed:
        return AndroidFailed(f"no server can play; {self.reasons}")
