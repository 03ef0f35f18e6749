"""What becomes of the task that a server was given last, where it can't be torn down."""

from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp.test_utils import TestServer
from tests.support.fake_android_world import FakeAndroidWorld, Faults

from warren_env_worker.environments.android_world.server import AndroidServer, Refused, SlotLost
from warren_env_worker.environments.android_world.slots import (
    GivenTask,
    Slot,
    goal_digest,
    taken,
)
from warren_env_worker.environments.android_world.tearing_down import tear_down
from warren_env_worker.permissions.service import Service

WIDTH, HEIGHT = 72, 160
OF_ANOTHER_SUITE = GivenTask(
    family="android_world", n_combinations=3, seed=1, task_type="SystemWifiTurnOff", task_idx=0,
    goal=goal_digest("Turn wifi off."),
)  # fmt: skip


@pytest.fixture
def slot(tmp_path: Path) -> Generator[Slot]:
    slot = taken("http://phones:5000/", tmp_path)
    assert slot is not None
    slot.note(OF_ANOTHER_SUITE)
    yield slot
    slot.release()


@asynccontextmanager
async def serving(faults: Faults) -> AsyncGenerator[AndroidServer]:
    fake = FakeAndroidWorld(WIDTH, HEIGHT)
    fake.faults = faults
    async with TestServer(fake.app()) as served:
        service = Service(served.make_url("/"), key=None, may_be_private=True)
        server = AndroidServer(service, answer_s=60.0, width=WIDTH)
        try:
            yield server
        finally:
            await server.close()


@pytest.mark.parametrize("path", ["/suite/reinitialize", "/task/tear_down"])
async def test_one_that_is_refused_on_a_device_that_is_well_is_forgotten(
    slot: Slot, path: str
) -> None:
    async with serving({"fails": path}) as server:
        with pytest.raises(Refused):
            await tear_down(server, slot)
    assert slot.task is None


@pytest.mark.parametrize("path", ["/suite/reinitialize", "/task/tear_down"])
async def test_one_that_is_refused_on_a_device_that_is_not_is_kept(slot: Slot, path: str) -> None:
    async with serving({"dead": True, "fails": path}) as server:
        with pytest.raises(SlotLost):
            await tear_down(server, slot)
    assert slot.task == OF_ANOTHER_SUITE


async def test_one_of_another_suite_is_torn_down_in_its_own(slot: Slot) -> None:
    async with serving({}) as server:
        await tear_down(server, slot)
        assert await server.n_combinations("SystemWifiTurnOff") == 3
    assert slot.task is None
