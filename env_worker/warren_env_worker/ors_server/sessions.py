"""Who plays which task, how many at once, and for how long in silence.

Invariants: a session that is silent for `idle_s` is ended, and with it its episode; one that is deleted, or was
never there, is 404, and one that is deleted while it opens never holds an episode. Of one environment, no more episodes
are live than the limit allows. No more than `max_sessions` are kept: a new one takes the place of that which has played
to its end and was silent longest.
"""

import asyncio
import time
from dataclasses import dataclass, field

from warren_env_worker.ors_server.bodies import Create
from warren_env_worker.ors_server.catalogue import Catalogue
from warren_env_worker.ors_server.errors import OrsError
from warren_env_worker.ors_server.session import Session
from warren_env_worker.ors_server.tools import Toolbox

LOOK_S = 5.0
"""How often idle sessions are looked for, at most."""
MAX_SESSIONS = 8192


@dataclass(slots=True, eq=False)
class _Place:
    """A task of an environment that no request has named yet; some clients name it in paths alone."""

    split: str
    index: int
    touched_s: float = field(default_factory=time.monotonic)
    opening: asyncio.Lock = field(default_factory=asyncio.Lock)


class Sessions:
    def __init__(
        self,
        catalogue: Catalogue,
        group: asyncio.TaskGroup,
        *,
        idle_s: float,
        max_sessions: int = MAX_SESSIONS,
    ) -> None:
        self._catalogue = catalogue
        self._group = group
        self._idle_s = idle_s
        self._max_sessions = max_sessions
        self._sessions: dict[str, Session] = {}
        self._waiting: dict[str, _Place] = {}

    async def create(self, number: str, asked: Create, environment: str | None) -> None:
        """Raises `OrsError`. Without an environment it begins when a path names one."""
        if number in self._sessions or number in self._waiting:
            raise OrsError(400, "this session is there already")
        self._make_room()
        place = self._waiting[number] = _Place(*asked.place)
        if environment is None:
            return
        try:
            async with place.opening:
                await self._open(number, place, environment)
        finally:
            if self._waiting.get(number) is place:
                del self._waiting[number]

    async def get(self, number: str, environment: str | None) -> Session:
        """The session, which is no other environment's. Raises `OrsError`."""
        place = self._waiting.get(number)
        if place is not None and environment is not None:
            async with place.opening:  # the first of several requests opens it
                if self._waiting.get(number) is place:
                    await self._open(number, place, environment)
        session = self._sessions.get(number)
        if session is None:
            raise OrsError(404, "there is no such session")
        if environment not in (None, session.environment):
            raise OrsError(404, f"this session is of {session.environment}, not {environment}")
        session.touch()
        return session

    def require(self, number: str) -> None:
        """It is there, whatever its environment."""
        if number in self._sessions:
            self._sessions[number].touch()
        elif number in self._waiting:
            self._waiting[number].touched_s = time.monotonic()
        else:
            raise OrsError(404, "there is no such session")

    def delete(self, number: str) -> None:
        """Also one that is not there."""
        self._waiting.pop(number, None)
        session = self._sessions.pop(number, None)
        if session is not None:
            session.close()

    def end(self) -> None:
        """All of them."""
        for number in [*self._sessions, *self._waiting]:
            self.delete(number)

    async def expire(self) -> None:
        """End what is idle, until cancelled."""
        while True:
            await asyncio.sleep(min(LOOK_S, self._idle_s))
            oldest_s = time.monotonic() - self._idle_s
            idle = [n for n, session in self._sessions.items() if session.idle_s > self._idle_s]
            idle += [n for n, place in self._waiting.items() if place.touched_s < oldest_s]
            for number in idle:
                self.delete(number)

    async def _open(self, number: str, place: _Place, environment: str) -> None:
        catalogue = self._catalogue
        task = await catalogue.task(environment, place.split, place.index)
        toolbox = Toolbox(await catalogue.described(environment))
        if self._waiting.get(number) is not place:
            raise OrsError(404, "the session was deleted while it opened")
        n_live = sum(s.is_live and s.environment == environment for s in self._sessions.values())
        episode = catalogue.opened(environment, task.split, task.index, n_live=n_live)
        self._sessions[number] = Session(environment, episode, toolbox, self._group)
        del self._waiting[number]

    def _make_room(self) -> None:
        """For one more. Raises `OrsError`."""
        if len(self._sessions) + len(self._waiting) < self._max_sessions:
            return
        idle_s = {n: s.idle_s for n, s in self._sessions.items() if not s.is_live}
        oldest = max(idle_s, key=lambda number: idle_s[number], default=None)
        if oldest is None:
            raise OrsError(429, f"{self._max_sessions} sessions are open; no more are taken")
        self.delete(oldest)
