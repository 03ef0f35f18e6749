"""Sandboxes that wait for whoever opens one next."""

import asyncio
import contextlib
from dataclasses import dataclass, field

import pytest

from warren.host_services import CellResult, CellStatus, SandboxFailed
from warren.host_services.settings import SandboxSettings
from warren_env_worker.permissions.permissions import TRUSTED
from warren_env_worker.sandbox.opening import Sandboxes
from warren_env_worker.sandbox.spares import Spares


@dataclass(eq=False)
class Fake:
    """A sandbox that tells what was done with it."""

    tier: str = "fake"
    keeps_state: bool = True
    is_alive: bool = False
    starts: asyncio.Event = field(default_factory=asyncio.Event)

    async def start(self) -> None:
        self.is_alive = True
        self.starts.set()

    async def run(self, code: str, limit_s: float) -> CellResult:
        return CellResult(CellStatus.OK, code)

    async def close(self) -> None:
        self.is_alive = False


class Makers:
    def __init__(self) -> None:
        self.made: list[Fake] = []

    def make(self, settings: SandboxSettings) -> Fake:
        self.made.append(Fake())
        return self.made[-1]

    def sandboxes(self, spares: Spares) -> Sandboxes:
        settings = SandboxSettings(tier="monty")
        return Sandboxes(settings, TRUSTED, makers={"monty": self.make}, spares=spares)


async def settled() -> None:
    """Whatever can be done without waiting is done."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_what_was_started_before_is_handed_out_and_replaced() -> None:
    makers, spares = Makers(), Spares(2)
    sandboxes = makers.sandboxes(spares)
    await sandboxes.open()
    await settled()
    waiting = [fake for fake in makers.made if fake.is_alive]
    assert len(waiting) == 2, "the one that was opened, and one that waits"
    assert await sandboxes.open() is waiting[1]
    await settled()
    await spares.close()
    assert [fake.is_alive for fake in makers.made].count(True) == 2, "those that were handed out"


async def test_one_that_has_ended_is_not_handed_out() -> None:
    makers, spares = Makers(), Spares(1)
    sandboxes = makers.sandboxes(spares)
    await sandboxes.open()
    await settled()
    dead = makers.made[-1]
    dead.is_alive = False
    opened = await sandboxes.open()
    assert opened is not dead
    await settled()
    await spares.close()


async def test_so_many_wait_and_the_oldest_gives_way() -> None:
    makers, spares = Makers(), Spares(2)
    for _ in range(3):
        await makers.sandboxes(spares).open()
        await settled()
    opened, waiting = makers.made[1::3], makers.made[2::3]
    assert [fake.is_alive for fake in opened] == [True, True, True]
    assert [fake.is_alive for fake in waiting] == [False, True, True]
    await spares.close()


async def test_many_that_open_at_once_order_no_more_than_may_wait() -> None:
    makers, spares = Makers(), Spares(2)
    sandboxes = makers.sandboxes(spares)
    await sandboxes.open()
    await settled()
    n_before = len(makers.made)
    await asyncio.gather(*(sandboxes.open() for _ in range(20)))
    await settled()
    assert len(makers.made) - n_before <= 21
    await spares.close()


async def test_one_that_nobody_takes_is_ended() -> None:
    makers, spares = Makers(), Spares(1, idle_s=0.0)
    await makers.sandboxes(spares).open()
    await settled()
    assert (len(makers.made), makers.made[-1].is_alive) == (3, False)
    await spares.close()


async def test_one_that_can_not_be_started_is_nobodys_trouble() -> None:
    async def start() -> Fake:
        raise SandboxFailed("no memory")

    spares = Spares(1)
    spares.order("kind", start)
    await settled()
    assert spares.take("kind") is None
    await spares.close()


async def test_once_it_is_closed_none_that_was_starting_is_kept_and_none_is_started() -> None:
    late, given_up = Fake(), asyncio.Event()

    async def stubborn() -> Fake:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.get_running_loop().create_future()
        await late.start()
        return late

    async def hanging() -> Fake:
        try:
            return await asyncio.get_running_loop().create_future()
        finally:
            given_up.set()

    spares = Spares(2)
    spares.order("stubborn", stubborn)
    spares.order("hanging", hanging)
    await settled()
    await spares.close()
    assert late.starts.is_set() and not late.is_alive
    assert given_up.is_set()
    spares.order("stubborn", stubborn)
    await settled()
    assert spares.take("stubborn") is None


@pytest.mark.parametrize("n_most", [0, 1])
async def test_without_spares_none_is_started(n_most: int) -> None:
    makers, spares = Makers(), Spares(n_most)
    await makers.sandboxes(spares).open()
    await settled()
    assert len(makers.made) == 2 + n_most, "one to try the tier, one that was opened"
    await spares.close()
