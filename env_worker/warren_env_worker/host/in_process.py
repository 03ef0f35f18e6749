"""An environment that is played in this process, without a child: one of Warren's own clients (`CLIENTS`).

Such a step is a message to a server and its answer; to pass it on to another process would cost more than the step.

Invariants: no user's code runs here; an episode reaches what its permissions say and nothing else; every request is
answered once, within the limits of the class. An episode ends with the host, as its server is told.
"""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import Context
from typing import Any, ParamSpec, TypeVar, cast

from warren.environment import Env
from warren_env_worker.host.backlog import Backlog, Entry
from warren_env_worker.host.calls import Calls
from warren_env_worker.host.child.caller import is_cancelled, late
from warren_env_worker.host.child.live_episodes import LiveEpisodes, is_last
from warren_env_worker.host.child.task_cache import TaskCache
from warren_env_worker.host.environment_class.describing import describe
from warren_env_worker.host.environment_class.importing import ImportFailed, import_environment
from warren_env_worker.host.greeting import Greeting
from warren_env_worker.host.protocol import IDLE, Call, Description, Refused
from warren_env_worker.host.startup import EnvironmentUnusable
from warren_env_worker.output.log import OutputLog
from warren_env_worker.output.played_here import logged
from warren_env_worker.permissions.permissions import NOTHING, acting_in
from warren_schemas.episode import FailureKind
from warren_schemas.operator_policy import OperatorPolicy

CLIENTS = frozenset({"warren_env_worker.environments.openenv.environment:OpenEnv"})
"""Classes that only ask servers, by few and short messages over connections that stay open: `async`, without code from anywhere
else, without host services, files or memory to speak of. Over HTTP a request costs more than to pass it on."""
CLOSE_S = 1.0
"""How long the servers of all episodes may take to hear that these have ended."""

P = ParamSpec("P")
ResultT = TypeVar("ResultT")

log = logging.getLogger(__name__)


class InProcess:
    """Takes what an `EnvironmentProcess` takes."""

    def __init__(
        self, reference: str, policy: OperatorPolicy, output: OutputLog | None = None
    ) -> None:
        self._reference = reference
        self._policy = policy
        self._output = output
        self._backlog = Backlog()
        self._wanted = asyncio.Event()
        self._greeting = Greeting()
        self._playing: _Playing | None = None

    @property
    def description(self) -> Description | None:
        return self._greeting.description

    def put(self, entry: Entry) -> None:
        if self._playing is not None:
            self._playing.take(entry)
            return
        self._backlog.put(entry)
        self._wanted.set()

    async def start(self) -> Description:
        """Raises `EnvironmentUnusable`."""
        self._wanted.set()
        return await self._greeting.heard()

    async def run(self) -> None:
        """From the first request on, until cancelled."""
        environment, described = await self._imported()
        self._greeting.tell(described)
        async with logged(self._reference, self._output) as context:
            acting_in(context, NOTHING)
            self._playing = _Playing(environment, Calls(described, self._policy), context)
            while not self._backlog.is_empty:
                for entry in self._backlog.take():
                    self._playing.take(entry)
            await self._playing.until_cancelled()

    async def _imported(self) -> tuple[type[Env[Any]], Description]:
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            try:
                return await asyncio.to_thread(_imported, self._reference)
            except ImportFailed as error:
                self._give_up(EnvironmentUnusable(str(error)))

    def _give_up(self, error: EnvironmentUnusable) -> None:
        log.error("%s can't be hosted: %s", self._reference, error)
        self._greeting.fail(error)
        for request in self._backlog.drain():
            request.answer(Refused(IDLE, FailureKind.ENVIRONMENT_ERROR, str(error)))


def _imported(reference: str) -> tuple[type[Env[Any]], Description]:
    """Reads the sources. Raises `ImportFailed`."""
    environment = import_environment(reference)
    return environment, describe(environment)


class _Caller:
    """Of code that ends when it is cancelled, as ours does."""

    @property
    def is_cancelled(self) -> bool:
        return is_cancelled()

    async def call(
        self,
        call: int,
        limit_s: float,
        function: Callable[P, ResultT | Awaitable[ResultT]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> ResultT:
        result = function(*args, **kwargs)
        if not inspect.isawaitable(result):
            return cast("ResultT", result)
        limit = asyncio.timeout(limit_s)
        try:
            async with limit:
                return await cast("Awaitable[ResultT]", result)
        except TimeoutError as error:
            if limit.expired():
                raise late(limit_s, {}) from error
            raise


class _Playing:
    def __init__(self, environment: type[Env[Any]], calls: Calls, context: Context) -> None:
        self._calls = calls
        self._episodes = LiveEpisodes(environment, _Caller(), TaskCache(environment))
        self._under_way: set[asyncio.Task[None]] = set()
        self._context = context

    def take(self, entry: Entry) -> None:
        call = self._calls.made_of(entry)
        if call is not None:
            task = self._begun(self._answered(call), f"call-{call.id}")
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)

    def _begun(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        return asyncio.create_task(work, name=name, context=self._context.copy())

    async def _answered(self, call: Call) -> None:
        """An answer is given before its episode is closed, which may take long."""
        answer = await self._episodes.take(call)
        again = self._calls.settle(answer)
        if again is not None:  # rebuilt before it may be closed
            self.take(again)
        if is_last(call, answer):
            await self._episodes.close(call)

    async def until_cancelled(self) -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            for task in self._under_way:
                task.cancel()
            await asyncio.gather(*self._under_way, return_exceptions=True)
            await self._begun(self._episodes.close_all(CLOSE_S), "close all")
