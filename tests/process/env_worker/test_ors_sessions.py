"""Sessions of `warren ors-server` on a real host: none is kept that nobody needs."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from tests.support.forked_hosts import hosting

from warren_env_worker.ors_server.bodies import Create
from warren_env_worker.ors_server.catalogue import Catalogue
from warren_env_worker.ors_server.errors import OrsError
from warren_env_worker.ors_server.session import MAX_CALLS
from warren_env_worker.ors_server.sessions import Sessions
from warren_env_worker.ors_server.settings import Served

TASK = Create(split="train", index=0)


@asynccontextmanager
async def serving(
    max_sessions: int, capacity: int, *, n_turns: int = 1
) -> AsyncGenerator[Sessions]:
    async with hosting("Letters") as host, asyncio.TaskGroup() as group:
        served = {"letters": Served(config={"n_turns": n_turns})}
        catalogue = Catalogue({"letters": host}, served, seed=0, capacity=capacity)
        sessions = Sessions(catalogue, group, idle_s=900.0, max_sessions=max_sessions)
        yield sessions
        sessions.end()


async def play(sessions: Sessions, number: str) -> None:
    """To its end."""
    session = await sessions.get(number, "letters")
    call = session.running(await session.call("act", {"action": "a"}))
    assert call is not None
    assert await call
    assert not session.is_live


async def test_a_session_that_is_deleted_while_it_opens_holds_no_episode() -> None:
    async with serving(max_sessions=8, capacity=1) as sessions:
        opening = asyncio.create_task(sessions.create("one", TASK, "letters"))
        await asyncio.sleep(0)  # the environment is starting
        sessions.delete("one")
        with pytest.raises(OrsError, match="deleted while it opened"):
            await opening
        with pytest.raises(OrsError, match="no such session"):
            await sessions.get("one", "letters")
        await sessions.create("two", TASK, "letters")
        await play(sessions, "two")


async def test_an_environment_whose_groups_only_it_can_compare_is_not_served() -> None:
    async with hosting("tests.support.comparing_environments:Compared") as host:
        catalogue = Catalogue({"compared": host}, {}, seed=0, capacity=1)
        with pytest.raises(OrsError, match="compares the episodes of a group") as refused:
            await catalogue.described("compared")
        assert refused.value.status == 400


async def test_one_that_is_refused_is_not_listed_once_that_is_known() -> None:
    async with (
        hosting("tests.support.comparing_environments:Compared") as refused,
        hosting("Letters") as host,
    ):
        catalogue = Catalogue({"Compared": refused, "letters": host}, {}, seed=0, capacity=1)
        assert catalogue.names_served == ["compared", "letters"]
        for each in (refused, host):
            await each.start()
        assert catalogue.names_served == ["letters"]
        assert catalogue.named("compared") == "Compared"  # and told why, if asked for


async def test_sessions_are_bounded_and_those_that_are_over_make_room() -> None:
    async with serving(max_sessions=3, capacity=8) as sessions:
        for number in ("one", "two"):
            await sessions.create(number, TASK, "letters")
        await sessions.create("three", TASK, None)
        with pytest.raises(OrsError, match="3 sessions are open") as refused:
            await sessions.create("four", TASK, None)
        assert refused.value.status == 429
        await play(sessions, "two")
        await play(sessions, "one")
        await sessions.create("four", TASK, None)
        with pytest.raises(OrsError, match="no such session"):
            await sessions.get("two", "letters")
        for number in ("one", "three", "four"):
            sessions.require(number)


async def test_a_session_takes_more_calls_than_it_keeps_and_forgets_the_oldest() -> None:
    n_calls = MAX_CALLS + 6
    async with serving(max_sessions=1, capacity=1, n_turns=n_calls) as sessions:
        await sessions.create("one", TASK, "letters")
        session = await sessions.get("one", "letters")
        numbers: list[str] = []
        for _ in range(n_calls):
            numbers.append(await session.call("act", {"action": "a"}))
            call = session.running(numbers[-1])
            assert call is not None
            assert isinstance(await call, dict)
        assert not session.is_live
        assert [n for n in numbers if session.running(n) is not None] == numbers[-MAX_CALLS:]


async def test_calls_that_run_or_wait_are_not_forgotten_for_another() -> None:
    async with serving(max_sessions=1, capacity=1, n_turns=MAX_CALLS) as sessions:
        await sessions.create("one", TASK, "letters")
        session = await sessions.get("one", "letters")
        await session.opening()
        at_once = [session.call("act", {"action": "a"}) for _ in range(MAX_CALLS + 1)]
        *numbers, refused = await asyncio.gather(*at_once, return_exceptions=True)
        assert isinstance(refused, OrsError)
        assert refused.status == 429
        assert "64 calls of this session run or wait" in refused.detail
        calls = [session.running(str(number)) for number in numbers]
        for call in calls:
            assert call is not None
            assert isinstance(await call, dict)
