"""Connections to the real servers that are cut in the middle of a call: it is found again by its number, and has run once.

And sessions in which nothing is said for long: they are kept awake."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from tests.ecosystems.ors.cutting import cutting
from tests.ecosystems.ors.serving import LOOK, call
from tests.ecosystems.real_server import RealServer
from tests.support.patience import PATIENCE_S

from warren.environment import Context, StepResult
from warren.observation import PromptTokens
from warren_env_worker.environments.ors.environment import Ors

pytestmark = pytest.mark.server


@asynccontextmanager
async def opened(url: str) -> AsyncGenerator[Ors]:
    environment = Ors(url, "trouble", patience_s=PATIENCE_S)
    environment.context = Context.derive(1)
    try:
        await environment.reset(3, environment.context)
        yield environment
    finally:
        await environment.close()


def shown(result: StepResult) -> list[str]:
    assert not isinstance(result.observation, str | PromptTokens)
    return [message.content for message in result.observation]


@pytest.mark.shows("ORS client", "retries")
@pytest.mark.parametrize(("of_many", "n_events"), [(False, 1), (True, 1), (True, 2)])
async def test_an_answer_that_was_cut_off_is_told_again(
    server: RealServer, of_many: bool, n_events: int
) -> None:
    """After the call's number, and after a piece of its answer."""
    async with cutting(server.url, n_events) as proxy, opened(proxy.url) as environment:
        first = await environment.step(call("much") if of_many else LOOK)
        second = await environment.step(LOOK)
    n_looks = 1 if of_many else 2
    assert shown(first) == (["é " * 2100 + "end"] if of_many else ["1 (look 1)"])
    assert shown(second) == [f"1 (look {n_looks})"]
    assert ["task_id" in body for body in proxy.calls] == [False, True, False]
    assert proxy.n_asked("/create") == 1


@pytest.mark.shows("ORS client", "retries")
async def test_a_call_that_still_runs_is_attached_to(server: RealServer) -> None:
    async with (
        cutting(server.url, 1) as proxy,
        opened(proxy.url) as held,
        opened(server.url) as other,
    ):
        stepping = asyncio.create_task(held.step(call("hold")))
        async with asyncio.timeout(PATIENCE_S):
            await proxy.was_answered_again.wait()
        assert not stepping.done()
        await other.step(call("release"))
        result = await stepping
    assert (shown(result), result.reward) == (["held (1)"], 0.5)
    assert proxy.n_asked("/create") == 1


@pytest.mark.shows("ORS client", "retries")
async def test_one_that_was_cut_before_its_number_is_made_in_another_session(
    server: RealServer,
) -> None:
    async with cutting(server.url, 0) as proxy, opened(proxy.url) as environment:
        result = await environment.step(LOOK)
    assert shown(result) == ["1 (look 1)"]
    assert proxy.n_asked("/create") == 2


@pytest.mark.slow
async def test_a_session_is_kept_awake_while_the_policy_is_silent(server: RealServer) -> None:
    async with cutting(server.url, None) as proxy, opened(proxy.url) as environment:
        await environment.step(LOOK)
        async with asyncio.timeout(PATIENCE_S):
            await proxy.has_answered["/ping", 200].wait()
        assert shown(await environment.step(LOOK)) == ["1 (look 2)"]
    assert proxy.n_asked("/create") == 1
