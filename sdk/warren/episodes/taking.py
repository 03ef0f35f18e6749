"""Take a run's episodes, and play them in a loop of one's own.

    async with client.episodes(run) as episodes:
        async for episode in episodes:
            ...                     # call the model at episode.base_url with episode.api_key
            episode.finish(reward)

This process is an env worker of the user's own, which hosts one environment: one that offers its episodes here.
So an episode is leased for as long as this process lives, moves nowhere, and is tried again when it is lost.

Invariants: at most `max_live` episodes are taken and not ended; one whose connection breaks has ended. An episode
fails where its agent does not call the model within minutes, so none is taken before somebody asks for one, and one at a
time where they are asked for one by one.
"""

import asyncio
import logging
import secrets
import shutil
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from importlib.metadata import entry_points
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, cast

from warren.environment import Score
from warren.episodes.episode import Episode
from warren.episodes.messages import Offer
from warren.episodes.sockets import PREFIX, folder_of, socket_path
from warren.errors import ConfigurationError, RunCancelled, RunFailed
from warren.run import Run
from warren.settings import Settings
from warren.version import install_extra

TaskT = TypeVar("TaskT")

GROUP = "warren.workers"
"""Entry points by which the SDK finds workers, of which it imports none."""
_HOSTED = f"warren.episodes.hosted:{PREFIX}"

PLAYED_AT_ONCE = 64
"""By `play`, where `max_live` doesn't say how many."""

log = logging.getLogger(__name__)

Host = Callable[[Settings, str, int], Coroutine[Any, Any, None]]
"""(gateway and key, `name=module:Class`, capacity): hosts that environment as a worker of one's own until cancelled."""


class Episodes(Generic[TaskT]):
    """The episodes of a run, as they come, until it has ended."""

    def __init__(
        self,
        settings: Settings,
        find: Callable[[], Awaitable[Run]],
        environment: str | None,
        tasks: Sequence[TaskT],
        max_live: int | None,
        host: Host | None = None,
    ) -> None:
        """`max_live` None: one at a time is iterated over, `PLAYED_AT_ONCE` are played. `host` is what hosts the
        environment; None: the env worker that is installed here."""
        self._host = host
        self._settings = settings
        self._find = find
        self._environment = environment
        self._tasks = tasks
        self._max_live = max_live
        self._hosting: Callable[[int], Coroutine[Any, Any, None]] | None = None
        self._taken: asyncio.Queue[Episode[TaskT] | None] = asyncio.Queue()
        self._error: BaseException | None = None
        self._is_over = False
        self._live: set[Episode[TaskT]] = set()
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Raises `ConfigurationError` where the run has no such environment, or several."""
        run = await self._find()
        environment = _own_environment(run, self._environment)
        host, token = self._host or _installed_host(), secrets.token_hex(8)
        self._hosting = partial(host, self._settings, f"{environment}={_HOSTED}{token}")
        await self._stack.enter_async_context(_listening(token, self._offered))
        self._stack.callback(self._let_go)
        await self._stack.enter_async_context(self._beside(_end_of(run), "end of the run"))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._hosting = None
        self._end(None)
        await self._stack.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Episode[TaskT]:
        """Raises what ended the worker that hosts them, such as `AuthenticationError`."""
        await self._host_at_once(self._max_live or 1)
        while not self._is_over:
            episode = await self._taken.get()
            if episode is None:
                self._taken.put_nowait(None)  # for whoever else waits
            elif not episode.is_over:
                return episode
        if self._error is not None:
            raise self._error
        raise StopAsyncIteration

    async def play(self, agent: Callable[[Episode[TaskT]], Awaitable[Score]]) -> None:
        """Play all of them with a coroutine function, many at once, until the run has ended.

        What it returns is the reward; what it raises fails that episode alone, and is logged. It is cancelled
        where Warren ends the episode first, and not where it ended the episode itself.
        """
        await self._host_at_once(self.most_played)
        async with asyncio.TaskGroup() as group:
            async for episode in self:
                group.create_task(_played(agent, episode), name=f"play {episode}")

    @property
    def most_played(self) -> int:
        """By `play`, at once."""
        return self._max_live or PLAYED_AT_ONCE

    async def _host_at_once(self, n_episodes: int) -> None:
        """Begin to take episodes, with the first that asks for them."""
        if (hosting := self._hosting) is not None:
            self._hosting = None
            await self._stack.enter_async_context(self._beside(hosting(n_episodes), "env worker"))

    @asynccontextmanager
    async def _beside(self, work: Coroutine[Any, Any, None], name: str) -> AsyncGenerator[None]:
        """No more episodes come once it has ended; its error is raised to whoever waits for one."""
        task = asyncio.create_task(self._until(work), name=name)
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait({task})

    async def _until(self, work: Coroutine[Any, Any, None]) -> None:
        error: Exception | None = None
        try:
            await work
        except Exception as raised:  # noqa: BLE001  whoever takes episodes is told
            error = raised
        self._end(error)

    def _end(self, error: Exception | None) -> None:
        if not self._is_over:
            self._is_over, self._error = True, error
            self._taken.put_nowait(None)

    async def _offered(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A connection of the environment, for one episode."""
        try:
            offer = Offer.model_validate_json(await reader.readline())
            task = self._tasks[offer.index % len(self._tasks)] if self._tasks else None
            episode = Episode(offer, cast("TaskT", task))
            self._live.add(episode)
            self._taken.put_nowait(episode)
            try:
                await _answered(episode, reader, writer)
            finally:
                self._live.discard(episode)
        finally:
            writer.close()

    def _let_go(self) -> None:
        """Of what was taken and has not ended: it is tried again."""
        for episode in self._live:
            episode.lapse()


@asynccontextmanager
async def _listening(
    token: str, offered: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
) -> AsyncGenerator[None]:
    folder_of(token).mkdir(mode=0o700)
    try:
        server = await asyncio.start_unix_server(offered, socket_path(token))
        try:
            yield
        finally:
            server.close()
    finally:
        shutil.rmtree(folder_of(token), ignore_errors=True)


async def _answered(
    episode: Episode[Any], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    telling = asyncio.create_task(episode.outcome(), name="outcome")
    leaving = asyncio.create_task(reader.read(), name="end of the episode")  # it says nothing more
    try:
        await asyncio.wait({telling, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not telling.done():
            return
        outcome = telling.result()
        if outcome is not None:
            writer.write(outcome.model_dump_json().encode() + b"\n")
            with suppress(ConnectionError):
                await writer.drain()
    finally:
        episode.lapse()
        telling.cancel()
        leaving.cancel()


async def _played(
    agent: Callable[[Episode[TaskT]], Awaitable[Score]], episode: Episode[TaskT]
) -> None:
    playing = asyncio.ensure_future(agent(episode))
    ending = asyncio.create_task(episode.outcome(), name="outcome")
    try:
        await asyncio.wait({playing, ending}, return_when=asyncio.FIRST_COMPLETED)
        if playing.done() or ending.result() is not None:
            episode.finish(await playing)
    except Exception as error:
        log.warning("%r failed", episode, exc_info=True)
        episode.fail(f"{type(error).__name__}: {error}")
    finally:
        playing.cancel()
        ending.cancel()
        await asyncio.wait({playing})


async def _end_of(run: Run) -> None:
    with suppress(RunCancelled, RunFailed):
        await run.result()


def _installed_host() -> Host:
    found = [point for point in entry_points(group=GROUP) if point.name == "env"]
    if not found:
        raise ConfigurationError(
            "Episodes are played by an env worker, which is not installed here",
            hint=f"Install one with: {install_extra('env')}",
        )
    return cast("Host", found[0].load())


def _own_environment(run: Run, wanted: str | None) -> str:
    config = run.view.config
    own = [] if config is None else [e.name for e in config.environments if e.workers == "own"]
    chosen = [name for name in own if wanted in (None, name)]
    if len(chosen) == 1:
        return chosen[0]
    has = f"it has {', '.join(own)}" if own else "it has none"
    raise ConfigurationError(
        f"{run.id}: expected one environment with `workers: own`"
        + (f" called {wanted}" if wanted else "")
        + f"; {has}",
        hint="Name one with environment=…, or write `workers: own` beside its name in the run's config.",
    )
