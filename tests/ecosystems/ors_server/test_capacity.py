"""A `warren ors-server` that is full, and clients that wait until it is not."""

import asyncio
from pathlib import Path

import pytest
from tests.ecosystems.ors.cutting import cutting
from tests.ecosystems.ors_server.serving import ors_server
from tests.support.patience import PATIENCE_S

from warren.environment import Context
from warren_env_worker.environments.ors.environment import Ors

pytestmark = [pytest.mark.ecosystem_all, pytest.mark.server]


async def begun(url: str) -> Ors:
    environment = Ors(url, "vault", patience_s=PATIENCE_S)
    environment.context = Context.derive(1)
    await environment.reset(3, environment.context)
    return environment


@pytest.mark.shows("ORS server", "retries")
@pytest.mark.shows("ORS client", "retries")
async def test_an_episode_that_is_one_too_many_waits_for_another_to_end(tmp_path: Path) -> None:
    with ors_server(tmp_path, "--capacity", "1") as server:
        async with cutting(server.url, None) as proxy:
            first = await begun(server.url)
            waiting = asyncio.create_task(begun(proxy.url))
            async with asyncio.timeout(PATIENCE_S):
                await proxy.has_answered["/create", 429].wait()
            assert not waiting.done()
            await first.close()
            second = await waiting
            result = await second.step("1003")
            await second.close()
    assert (result.reward, result.done) == (1.0, True)
