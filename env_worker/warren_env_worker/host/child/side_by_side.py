"""The loop of a child whose class has `async` methods: calls of different episodes side by side.

Invariant, as of the other loop (`loops`): an answer is sent before its episode is closed.
"""

import asyncio

from warren_broker.worker.channel import Channel
from warren_env_worker.host.child.answer_batches import Answers
from warren_env_worker.host.child.call_reader import CallReader
from warren_env_worker.host.child.live_episodes import LiveEpisodes, is_last
from warren_env_worker.host.protocol import Call


class SideBySide:
    """One callback of the loop hears all calls: to wait anew for each would take as long as a short one."""

    def __init__(self, channel: Channel, episodes: LiveEpisodes) -> None:
        self._episodes = episodes
        self._answers = Answers(channel)
        self._talk = channel.detach()
        self._reader = CallReader(self._talk)
        self._under_way: set[asyncio.Task[None]] = set()

    async def serve(self) -> None:
        """Until the supervisor goes."""
        loop = asyncio.get_running_loop()
        has_gone: asyncio.Future[None] = loop.create_future()
        loop.add_reader(self._talk, self._hear, has_gone)
        try:
            await has_gone
        finally:
            loop.remove_reader(self._talk)

    def _hear(self, has_gone: asyncio.Future[None]) -> None:
        """In this thread, for two that take turns would hold up each other."""
        try:
            calls = self._reader.calls()
        except Exception as error:  # noqa: BLE001 - for who waits
            has_gone.set_exception(error)
            return
        if calls is None:
            has_gone.set_result(None)
            return
        for call in calls:
            self._begin(call)

    def _begin(self, call: Call) -> None:
        task = asyncio.create_task(self._take(call), name=f"call-{call.id}")
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _take(self, call: Call) -> None:
        answer = await self._episodes.take(call)
        self._answers.add(answer)
        if len(self._under_way) > 1:  # what else is ready by now goes into the same frame
            await asyncio.sleep(0)
        self._answers.flush()
        if is_last(call, answer):
            await self._episodes.close(call)
