"""What a server lost is asked for again, and for how long."""

import asyncio
from collections import deque

import pytest
from tests.support.patience import PATIENCE_S

from warren_env_worker.permissions.retries import MAX_LOSSES, SessionLost, unless_lost

FOR_EVER_S = 10 * PATIENCE_S


class Given(Exception):
    """Up."""


class Losing:
    def __init__(self, *pauses_s: float) -> None:
        self.pauses_s = deque(pauses_s)
        """With each loss."""
        self.n_left = 0
        self.has_left = asyncio.Event()

    async def ask(self) -> str:
        if self.pauses_s:
            raise SessionLost(pause_s=self.pauses_s.popleft())
        return "done"

    async def leave(self, _: SessionLost) -> None:
        self.n_left += 1
        self.has_left.set()

    async def answer(self) -> str:
        async with asyncio.timeout(PATIENCE_S):
            return await unless_lost(self.ask, self.leave, Given)


async def test_what_was_lost_is_left_and_asked_for_again() -> None:
    losing = Losing(*[0.0] * (MAX_LOSSES - 1))
    assert await losing.answer() == "done"
    assert losing.n_left == MAX_LOSSES - 1


async def test_after_the_last_loss_it_fails_at_once_whatever_pause_the_server_wants() -> None:
    losing = Losing(*[0.0] * (MAX_LOSSES - 1), FOR_EVER_S)
    with pytest.raises(Given):
        await losing.answer()
    assert losing.n_left == MAX_LOSSES


async def test_before_another_try_the_pause_that_the_server_wants_is_kept() -> None:
    losing = Losing(FOR_EVER_S)
    answering = asyncio.create_task(losing.answer())
    await losing.has_left.wait()
    answering.cancel()
    await asyncio.wait({answering})
    assert answering.cancelled()
