"""One episode at a server.

Invariant: what the policy was shown stays true. A server that lost the episode (started anew, or swept it) is
asked for a new one, and all actions are sent again; each answer must be as before, or it is `NotReplayable`.
"""

import contextlib
import logging
import uuid
from asyncio import timeout
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from warren.environment import NotReplayable
from warren_env_worker.environments.http.answers import (
    BEGUN,
    SCORED,
    STEPPED,
    Begun,
    Scored,
    Stepped,
    digest,
)
from warren_env_worker.environments.http.server import GONE, EnvServer, ServerFailed
from warren_env_worker.permissions.retries import MAX_LOSSES, SessionLost, unless_lost

LEAVE_S = 5.0

ResultT = TypeVar("ResultT")
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Beginning:
    """What an episode is made from."""

    split: str
    task: int
    seed: int
    member: int
    level: int | None
    config: dict[str, object]


class HttpEpisode:
    def __init__(self, server: EnvServer, beginning: Beginning) -> None:
        self._server = server
        self._beginning = beginning
        self._id: str | None = None
        self._first = ""
        """Digest of the first observation."""
        self._steps: list[tuple[str, str]] = []
        """Each action, and the digest of what followed."""

    async def begin(self) -> Begun:
        begun = await self._unless_lost(self._begin)
        self._first = digest(begun)
        return begun

    async def step(self, action: str) -> Stepped:
        stepped = await self._unless_lost(lambda: self._at_its_place(action))
        self._steps.append((action, digest(stepped)))
        return stepped

    async def score(self) -> Scored:
        async def scored() -> Scored:
            if self._id is None:
                await self._rebuild()
            return await self._server.ask(SCORED, "POST", f"episodes/{self._id}/score", {})

        return await self._unless_lost(scored)

    async def close(self) -> None:
        """Whatever the server says to it, the episode is over."""
        try:
            if self._id is not None:
                with contextlib.suppress(Exception):
                    async with timeout(LEAVE_S):
                        path = f"episodes/{self._id}"
                        await self._server.ask_once("DELETE", path, expected=GONE)
        finally:
            await self._server.close()

    async def _unless_lost(self, ask: Callable[[], Awaitable[ResultT]]) -> ResultT:
        return await unless_lost(ask, self._leave, self._failed)

    async def _leave(self, _: SessionLost) -> None:
        log.warning("%s lost an episode of %s", self._server.url, self._beginning)
        self._id = None

    def _failed(self) -> ServerFailed:
        return ServerFailed(f"{self._server.url} lost the episode {MAX_LOSSES} times")

    async def _begin(self) -> Begun:
        new = uuid.uuid4().hex
        body = {
            "split": self._beginning.split,
            "task": self._beginning.task,
            "seed": self._beginning.seed,
            "member": self._beginning.member,
            **({} if self._beginning.level is None else {"level": self._beginning.level}),
            "config": self._beginning.config,
        }
        self._id = new  # before it begins: one that breaks off may be there, and is deleted, too
        return await self._server.ask(BEGUN, "PUT", f"episodes/{new}", body)

    async def _at_its_place(self, action: str) -> Stepped:
        if self._id is None:
            await self._rebuild()
        return await self._once(len(self._steps) + 1, action)

    async def _once(self, turn: int, action: str) -> Stepped:
        body = {"turn": turn, "action": action}
        return await self._server.ask(STEPPED, "POST", f"episodes/{self._id}/steps", body)

    async def _rebuild(self) -> None:
        if digest(await self._begin()) != self._first:
            raise NotReplayable(
                f"{self._server.url} lost the episode; begun again, it shows something else"
            )
        for turn, (action, before) in enumerate(self._steps, 1):
            if digest(await self._once(turn, action)) != before:
                raise NotReplayable(
                    f"{self._server.url} lost the episode; replayed, it answers turn {turn} differently"
                )
