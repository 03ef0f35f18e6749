"""One session: a task, its episode from the beginning, and the calls of its tools in turn.

Invariants: a call runs once, whatever becomes of the connection that brought it, and is found again by its
number for `LINGER_S` after its end, as long as it is among the last `MAX_CALLS`. Calls run one after the other, in
the order in which they came. Of a session whose episode failed, every call fails with the same reason.
"""

import asyncio
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

from warren_env_worker.host.protocol import Message, Observed
from warren_env_worker.ors_server.blocks import output
from warren_env_worker.ors_server.catalogue import as_answer
from warren_env_worker.ors_server.errors import OrsError
from warren_env_worker.ors_server.tools import CallRefused, Reason, Toolbox
from warren_env_worker.served_episode import Episode, EpisodeFailed
from warren_schemas.ids import new_id

STARTING_S = 25.0
"""How long a request waits for the environment's beginning; then the client asks again."""
LINGER_S = 60.0
MAX_CALLS = 64
"""Calls of one session that are known: those that run or wait, and the last of those that ended."""

Answer = dict[str, object]
ResultT = TypeVar("ResultT")


class Session:
    def __init__(
        self, environment: str, episode: Episode, toolbox: Toolbox, group: asyncio.TaskGroup
    ) -> None:
        self.environment = environment
        self.toolbox = toolbox
        self._episode = episode
        self._group = group
        self._calls: dict[str, asyncio.Task[Answer | EpisodeFailed]] = {}
        self._turn = asyncio.Lock()
        self._metrics: dict[str, float] = {}
        self._is_over = False
        self._failed: EpisodeFailed | None = None
        self._touched_s = time.monotonic()
        self._beginning = group.create_task(_kept(episode.begin()), name="beginning of a session")

    @property
    def is_live(self) -> bool:
        """Whether it holds an episode."""
        return self._episode.is_live

    @property
    def idle_s(self) -> float:
        """0 while something is under way."""
        is_busy = any(not task.done() for task in (self._beginning, *self._calls.values()))
        return 0.0 if is_busy else time.monotonic() - self._touched_s

    def touch(self) -> None:
        self._touched_s = time.monotonic()

    async def opening(self) -> list[Message]:
        """The first observation. Raises `OrsError`."""
        return self.toolbox.without_tools(list((await self._begun()).messages))

    async def call(self, name: str, given: dict[str, Any]) -> str:
        """Begin a call; its number. Raises `OrsError`."""
        await self._begun()
        self._make_room()
        number = new_id("call")
        work = _kept(self._in_turn(name, given))
        task = self._calls[number] = self._group.create_task(work, name=f"ORS call {number}")
        task.add_done_callback(lambda _: self._linger(number))
        return number

    def running(self, number: str) -> "asyncio.Task[Answer | EpisodeFailed] | None":
        """The call of this number, if it is known."""
        return self._calls.get(number)

    def close(self) -> None:
        """Its calls fail; the episode is closed."""
        self._episode.close()

    async def _begun(self) -> Observed:
        done, _ = await asyncio.wait({self._beginning}, timeout=STARTING_S)
        if not done:
            raise OrsError(503, "the environment is still starting", is_starting=True)
        shown = self._beginning.result()
        if isinstance(shown, EpisodeFailed):
            raise as_answer(shown) from shown
        return shown

    async def _in_turn(self, name: str, given: dict[str, Any]) -> Answer:
        """Raises `EpisodeFailed`."""
        async with self._turn:
            self.touch()
            if self._failed is not None:
                raise self._failed
            try:
                return await self._called(name, given)
            except CallRefused as refused:
                return _refusal(str(refused), refused.reason)
            except EpisodeFailed as error:
                self._failed = error
                raise

    async def _called(self, name: str, given: dict[str, Any]) -> Answer:
        if self._is_over:
            raise CallRefused("the episode is over", "episode_finished")
        shown = await self._episode.act(self.toolbox.action(name, given))
        before, self._metrics = self._metrics, shown.metrics
        self._is_over = shown.is_over
        if self.toolbox.is_refused(shown, before):
            return _refusal("\n".join(text for _, text, *_ in shown.messages), "input_validation")
        return {"ok": True, "output": output(shown)}

    def _make_room(self) -> None:
        """For one more call, in the place of the oldest that ended. Raises `OrsError`."""
        if len(self._calls) < MAX_CALLS:
            return
        ended = next((number for number, task in self._calls.items() if task.done()), None)
        if ended is None:
            raise OrsError(429, f"{MAX_CALLS} calls of this session run or wait; wait for one")
        del self._calls[ended]

    def _linger(self, number: str) -> None:
        self.touch()
        asyncio.get_running_loop().call_later(LINGER_S, self._calls.pop, number, None)


async def _kept(work: Coroutine[Any, Any, ResultT]) -> ResultT | EpisodeFailed:
    """The failure as a result: it ends this session, and not the server."""
    try:
        return await work
    except EpisodeFailed as error:
        return error


def _refusal(what: str, reason: Reason) -> Answer:
    return {"ok": False, "error": what, "reason": reason}
