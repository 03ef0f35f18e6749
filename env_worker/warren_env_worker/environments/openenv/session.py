"""One episode's session with an OpenEnv server.

Invariants: a session lives as long as its connection, which is why it is lost with it (the server was started anew,
or the network broke). Then another one is begun with the same seed and task, and all actions are sent again. Each
answer must be to the policy what it was before: then the episode goes on, else it is `NotReplayable`.
"""

import asyncio
import contextlib
import hashlib
import logging
from collections.abc import Callable, Mapping
from functools import partial

import orjson

from warren.environment import NotReplayable
from warren_env_worker.environments.openenv.answers import Error, Observed
from warren_env_worker.environments.openenv.server import OpenEnvFailed, OpenEnvServer
from warren_env_worker.environments.openenv.socket import Socket, SocketLost
from warren_env_worker.permissions.retries import MAX_LOSSES, RetryLater, SessionLost, unless_lost

LEAVE_S = 5.0

Action = Mapping[str, object]
log = logging.getLogger(__name__)


class OpenEnvSession:
    def __init__(
        self, server: OpenEnvServer, beginning: Action, shown: Callable[[Observed], str]
    ) -> None:
        """`beginning` is what `reset` gets; `shown` says what the policy is shown of an observation."""
        self._server = server
        self._beginning = beginning
        self._shown = shown
        self._socket: Socket | None = None
        self._first = ""
        """Digest of the first observation."""
        self._steps: list[tuple[Action, str]] = []
        """Each action, and the digest of what followed."""

    async def begin(self) -> Observed:
        """Raises `OpenEnvFailed`."""
        observed = await self._server.with_retries(self._begin)
        self._first = self._digest(observed)
        return observed

    async def step(self, action: Action) -> Observed | Error:
        """An `Error` says that the action is none, and has changed nothing. Raises `OpenEnvFailed` where the
        environment raised, and `NotReplayable`."""
        at_its_place = partial(self._at_its_place, action)
        answer = await unless_lost(at_its_place, self._lose, self._failed)
        self._steps.append((action, self._digest(answer)))
        return answer

    async def close(self) -> None:
        """The server hears of it, and has room for another one."""
        try:
            await self._leave()
        finally:
            await self._server.close()

    async def _lose(self, _: SessionLost) -> None:
        log.warning("%s lost a session", self._server.url)
        await self._leave()

    def _failed(self) -> OpenEnvFailed:
        return OpenEnvFailed(f"{self._server.url} lost the session {MAX_LOSSES} times")

    async def _begin(self) -> Observed:
        self._socket = await self._server.connected()
        is_begun = False
        try:
            answer = await self._answer("reset", self._beginning)
            if isinstance(answer, Observed):
                is_begun = True
                return answer
        except SocketLost as error:
            raise RetryLater from error
        finally:
            if not is_begun:
                await self._leave()
        if answer.code == "CAPACITY_REACHED":
            raise RetryLater(is_busy=True)
        raise OpenEnvFailed(f"{self._server.url} begins no episode: {answer.told}")

    async def _at_its_place(self, action: Action) -> Observed | Error:
        if self._socket is None:
            await self._rebuild()
        return await self._once(action)

    async def _rebuild(self) -> None:
        if self._digest(await self._server.with_retries(self._begin)) != self._first:
            raise self._differs("it begins otherwise")
        for number, (action, before) in enumerate(self._steps, 1):
            try:
                again = self._digest(await self._once(action))
            except OpenEnvFailed as error:
                raise self._differs(f"it fails at action {number}: {error}") from error
            if again != before:
                raise self._differs(f"it answers action {number} otherwise")

    async def _once(self, action: Action) -> Observed | Error:
        answer = await self._answer("step", action)
        if isinstance(answer, Observed) or answer.code == "VALIDATION_ERROR":
            return answer
        raise OpenEnvFailed(f"{self._server.url} failed: {answer.told}")

    async def _answer(self, what: str, data: Action) -> Observed | Error:
        assert self._socket is not None  # `_begin` opens it
        return self._server.read(await self._socket.ask({"type": what, "data": data}))

    async def _leave(self) -> None:
        left, self._socket = self._socket, None
        if left is not None:
            with contextlib.suppress(Exception):
                async with asyncio.timeout(LEAVE_S):
                    await left.close()

    def _digest(self, answer: Observed | Error) -> str:
        """Equal for answers that are the same to the policy and to its reward."""
        same = (
            answer.told
            if isinstance(answer, Error)
            else [self._shown(answer), answer.reward, answer.done]
        )
        return hashlib.blake2b(orjson.dumps(same), digest_size=16).hexdigest()

    def _differs(self, how: str) -> NotReplayable:
        return NotReplayable(f"{self._server.url} lost the session; begun anew, {how}")
