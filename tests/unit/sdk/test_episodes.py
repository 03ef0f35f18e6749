"""A run's episodes in a loop of one's own: taken, played, finished and failed, without a model or a worker."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest
from tests.support.fake_gateway import CONFIG, KEY, FakeGateway, fake_gateway

import warren
from warren.agents.environment import AgentFailed
from warren.connection.transport import Transport
from warren.episodes.hosted import GONE
from warren.episodes.taking import Episodes
from warren.settings import Settings, find_settings
from warren.testing import Episode as Played
from warren.testing import play
from warren_env_worker.host.environment_class.importing import ImportFailed, import_environment
from warren_schemas.config import TrainConfig
from warren_schemas.events import RunState, StateChanged

OWN = TrainConfig.model_validate(
    CONFIG.model_dump() | {"environments": [{"name": "capital", "workers": "own"}]}
)


@dataclass
class Host:
    """Plays so many episodes to the end, as an env worker's process would, and then waits."""

    n_episodes: int = 1
    max_turns: int = 8
    asked_for: str = ""
    capacity: int = 0
    played: list[Played | Exception] = field(default_factory=list[Played | Exception])
    is_done: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, settings: Settings, environment: str, capacity: int) -> None:
        self.capacity = capacity
        self.asked_for, _, reference = environment.partition("=")
        found = import_environment(reference)
        for index in range(self.n_episodes):
            self.played.append(await self._play(found, index))
        self.is_done.set()
        await asyncio.Event().wait()

    async def _play(self, environment: Callable[[], Any], index: int) -> Played | Exception:
        def played() -> Played:
            return play(environment(), lambda _: "paris", index=index, max_turns=self.max_turns)

        try:
            return await asyncio.to_thread(played)
        except AgentFailed as error:
            return error


@pytest.fixture
async def gateway() -> AsyncGenerator[FakeGateway]:
    async with fake_gateway() as server:
        yield server


@asynccontextmanager
async def opened(
    gateway: FakeGateway,
    host: Host,
    *,
    config: TrainConfig = OWN,
    environment: str | None = None,
    max_live: int | None = 4,
) -> AsyncGenerator[Episodes[str]]:
    settings = find_settings(gateway.url, KEY)
    transport = Transport(settings, timeout_s=30.0, retry_s=0.0)
    async with warren.Client(transport) as client:
        run = gateway.add_run(config=config)

        async def find() -> warren.Run:
            return await client.run(run)

        tasks = ["france", "peru"]
        async with Episodes(settings, find, environment, tasks, max_live, host) as episodes:
            yield episodes


async def ask(episode: warren.Episode[str]) -> str:
    headers = {"Authorization": f"Bearer {episode.api_key}"}
    asked = {"model": episode.model, "messages": [{"role": "user", "content": episode.task}]}
    url = f"{episode.base_url}/chat/completions"
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.post(url, json=asked) as answer,
    ):
        return (await answer.json())["choices"][0]["message"]["content"]


async def test_a_loop_takes_episodes_and_says_what_they_earned(gateway: FakeGateway) -> None:
    host = Host(n_episodes=2)
    async with opened(gateway, host) as episodes:
        first = await anext(episodes)
        assert (first.task, first.index, await ask(first)) == ("france", 0, "paris")
        first.reward(0.25)
        first.metric("length", 5)
        first.finish({"right": 1.0, "short": 0.5})
        second = await anext(episodes)
        assert (second.task, await ask(second)) == ("peru", "paris")
        second.finish(0.0)
        second.fail("too late: it has ended")
        await host.is_done.wait()
    one, two = host.played
    assert isinstance(one, Played)
    assert isinstance(two, Played)
    assert host.asked_for == "capital"
    assert one.reward == 1.75
    assert one.results[-1].metrics == {"length": 5.0, "right": 1.0, "short": 0.5}
    assert two.reward == 0.0


async def test_what_an_agent_raises_fails_its_episode_alone(gateway: FakeGateway) -> None:
    host = Host(n_episodes=2)

    async def agent(episode: warren.Episode[str]) -> float:
        said = await ask(episode)
        if episode.task == "peru":
            raise ValueError("no such country")
        return float(said == "paris")

    async with opened(gateway, host) as episodes, asyncio.TaskGroup() as group:
        playing = group.create_task(episodes.play(agent))
        await host.is_done.wait()
        playing.cancel()
    one, two = host.played
    assert isinstance(one, Played)
    assert one.reward == 1.0
    assert isinstance(two, AgentFailed)
    assert str(two) == "ValueError: no such country"


async def test_an_agent_is_cancelled_when_its_episode_ends_first(gateway: FakeGateway) -> None:
    host, was_cancelled = Host(max_turns=1), asyncio.Event()

    async def agent(episode: warren.Episode[str]) -> None:
        await ask(episode)
        try:
            with suppress(LookupError, aiohttp.ClientError):
                await ask(episode)  # one more than it may
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            was_cancelled.set()
            raise

    async with opened(gateway, host) as episodes, asyncio.TaskGroup() as group:
        playing = group.create_task(episodes.play(agent))
        await was_cancelled.wait()
        playing.cancel()


async def test_an_agent_that_ends_its_episode_itself_may_clean_up(gateway: FakeGateway) -> None:
    host, has_cleaned_up = Host(), asyncio.Event()

    async def agent(episode: warren.Episode[str]) -> None:
        await ask(episode)
        episode.finish(0.5)
        await host.is_done.wait()
        has_cleaned_up.set()

    async with opened(gateway, host) as episodes, asyncio.TaskGroup() as group:
        playing = group.create_task(episodes.play(agent))
        await has_cleaned_up.wait()
        playing.cancel()
    (played,) = host.played
    assert isinstance(played, Played)
    assert played.reward == 0.5


@pytest.mark.parametrize(("max_live", "iterated", "played"), [(None, 1, 64), (4, 4, 4)])
async def test_no_more_are_taken_than_are_worked_on(
    gateway: FakeGateway, max_live: int | None, iterated: int, played: int
) -> None:
    """One that waits for its turn would fail, for it doesn't call its model."""
    host = Host()
    async with opened(gateway, host, max_live=max_live) as episodes:
        await anext(episodes)
    assert host.capacity == iterated

    async def agent(episode: warren.Episode[str]) -> None:
        await ask(episode)

    async with opened(gateway, host, max_live=max_live) as episodes, asyncio.TaskGroup() as group:
        playing = group.create_task(episodes.play(agent))
        await host.is_done.wait()
        playing.cancel()
    assert host.capacity == played


async def test_what_is_left_unfinished_is_given_back(gateway: FakeGateway) -> None:
    played: asyncio.Future[Played | Exception] = asyncio.get_running_loop().create_future()

    class Leaving(Host):
        async def __call__(self, settings: Settings, environment: str, capacity: int) -> None:
            found = import_environment(environment.partition("=")[2])
            task = asyncio.create_task(self._play(found, 0))
            task.add_done_callback(lambda done: played.set_result(done.result()))
            await asyncio.Event().wait()

    async with opened(gateway, Leaving()) as episodes:
        await ask(await anext(episodes))
    assert str(await played) == GONE


async def test_no_more_come_once_the_run_has_ended(gateway: FakeGateway) -> None:
    async with opened(gateway, Host(n_episodes=0)) as episodes:
        (run,) = gateway.runs
        await gateway.emit(run, StateChanged(state=RunState.COMPLETED))
        assert [episode async for episode in episodes] == []
        assert [episode async for episode in episodes] == []


async def test_all_who_wait_for_one_hear_that_the_run_has_ended(gateway: FakeGateway) -> None:
    async with opened(gateway, Host(n_episodes=0)) as episodes, asyncio.TaskGroup() as group:

        async def wait() -> list[warren.Episode[str]]:
            return [episode async for episode in episodes]

        waiting = [group.create_task(wait()) for _ in range(3)]
        (run,) = gateway.runs
        await gateway.emit(run, StateChanged(state=RunState.COMPLETED))
    assert [task.result() for task in waiting] == [[], [], []]


async def test_what_ends_the_worker_is_raised(gateway: FakeGateway) -> None:
    class Refused(Host):
        async def __call__(self, settings: Settings, environment: str, capacity: int) -> None:
            raise warren.AuthenticationError("the key is revoked")

    async with opened(gateway, Refused()) as episodes:
        with pytest.raises(warren.AuthenticationError, match="revoked"):
            await anext(episodes)


@pytest.mark.parametrize(
    ("environments", "wanted", "says"),
    [
        ([{"name": "guess"}], None, "it has none"),
        ([{"name": "a", "workers": "own"}, {"name": "b", "workers": "own"}], None, "it has a, b"),
        ([{"name": "a", "workers": "own"}], "b", "called b; it has a"),
    ],
)
async def test_a_run_without_such_an_environment_is_refused(
    gateway: FakeGateway, environments: list[dict[str, str]], wanted: str | None, says: str
) -> None:
    config = TrainConfig.model_validate(CONFIG.model_dump() | {"environments": environments})
    with pytest.raises(warren.ConfigurationError, match=says):
        async with opened(gateway, Host(), config=config, environment=wanted):
            pass


def test_other_names_are_no_environments() -> None:
    with pytest.raises(ImportFailed, match="has no OfferedAt_xyz"):
        import_environment("warren.episodes.hosted:OfferedAt_xyz")
