"""Episodes of a run, played without `await`."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, Self

from warren.connection.loop_thread import LoopThread
from warren.environment import Score
from warren.episodes.episode import Episode
from warren.episodes.taking import Episodes as AsyncEpisodes
from warren.episodes.taking import TaskT


class Episodes(Generic[TaskT]):
    """See `warren.Episodes`."""

    def __init__(self, thread: LoopThread, episodes: AsyncEpisodes[TaskT]) -> None:
        self._thread = thread
        self._episodes = episodes

    def __enter__(self) -> Self:
        self._thread.call(self._episodes.__aenter__())
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.call(self._episodes.__aexit__(None, None, None))

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Episode[TaskT]:
        try:
            return self._thread.call(self._episodes.__anext__())
        except StopAsyncIteration:
            raise StopIteration from None

    def play(self, agent: Callable[[Episode[TaskT]], Score]) -> None:
        """Play all of them with a function, each in a thread of its own, until the run has ended.

        What it returns is the reward; what it raises fails that episode alone.
        """
        with ThreadPoolExecutor(self._episodes.most_played, "play") as threads:

            async def play(episode: Episode[TaskT]) -> Score:
                return await asyncio.get_running_loop().run_in_executor(threads, agent, episode)

            self._thread.call(self._episodes.play(play))
