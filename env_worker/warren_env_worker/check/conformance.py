"""Whether a server keeps to the protocol, as far as a stranger can see: what `warren env check --url` looks at
before it plays the environment.

Each look has an episode of its own, whose id no server has heard: one that fails says nothing of the others, nor does
what an earlier check left behind.
"""

import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field

from warren.environment import ConfigError
from warren_env_worker.check.finding import Finding, bad, good, unknown
from warren_env_worker.environments.http.answers import (
    BEGUN,
    DESCRIPTION,
    SCORED,
    STEPPED,
    Begun,
    Description,
    Scored,
    Stepped,
    digest,
)
from warren_env_worker.environments.http.server import (
    GONE,
    EnvServer,
    EpisodeLost,
    ServerFailed,
)
from warren_env_worker.permissions.retries import RetryLater

_SEED, _ACTION, _MOST_TURNS = 11, "1", 4


@dataclass(frozen=True, slots=True)
class Looks:
    """What is looked at, with one server, config and split."""

    server: EnvServer
    config: dict[str, object]
    split: str
    number: str = field(default_factory=lambda: uuid.uuid4().hex)
    """In the ids of this check's episodes."""

    async def findings(self) -> AsyncGenerator[Finding]:
        """Where the server can't be asked at all, that alone."""
        try:
            description = await self.server.ask(DESCRIPTION, "GET")
        except (ServerFailed, ConfigError) as error:
            yield bad("the server describes itself", str(error))
            return
        yield good("the server describes itself", f"{description.name} {description.version}")
        yield self._has_split(description)
        looks: list[tuple[str, Callable[[], Awaitable[Finding | None]]]] = [
            ("an episode that begins twice is the same", self._begins_twice),
            ("a turn that comes twice is answered as before", self._steps_twice),
            ("a score that is asked for twice is the same", self._scores_twice),
            ("a lost episode can be played anew", self._replays),
            ("an unknown episode is 404", self._knows_none),
            ("an episode may be deleted twice", self._deletes_twice),
        ]
        for what, look in looks:
            try:
                yield await look() or good(what)
            except (ServerFailed, ConfigError) as error:
                yield bad(what, str(error))
            except EpisodeLost:
                yield bad(what, "the server said 404 of an episode that it had just begun")

    def _has_split(self, description: Description) -> Finding:
        what, splits = "it has the split", description.splits
        if self.split not in splits:
            return bad(what, f"{self.split} is not among {', '.join(splits)}; give --split")
        n_tasks = splits[self.split]
        if n_tasks == 0:
            return bad(what, f"{self.split} has no task")
        return good(what, f"{self.split}, {'made from seeds' if n_tasks is None else n_tasks}")

    async def _begins_twice(self) -> Finding | None:
        first, again = await self._begin("twice"), await self._begin("twice")
        await self._delete("twice")
        if digest(first) != digest(again):
            return bad(
                "an episode that begins twice is the same",
                "the second PUT with the same id shows something else; answer as to the first one",
            )
        return None

    async def _steps_twice(self) -> Finding | None:
        await self._begin("steps")
        first, again = await self._step("steps", 1), await self._step("steps", 1)
        await self._delete("steps")
        if digest(first) != digest(again):
            return bad(
                "a turn that comes twice is answered as before",
                "turn 1 was played twice; keep the answers of an episode, by turn",
            )
        return None

    async def _scores_twice(self) -> Finding | None:
        """As of an episode that ends, or that a run cuts after so many turns."""
        what = "a score that is asked for twice is the same"
        begun = await self._begin("score")
        if begun.scores:
            await self._turns("score")
            first, again = await self._score("score"), await self._score("score")
        else:
            first = again = None
        await self._delete("score")
        if first != again:
            return bad(
                what, "the second one differs; keep the score of an episode with its answers"
            )
        return None if begun.scores else good(what, "none is asked for")

    async def _replays(self) -> Finding | None:
        what = "a lost episode can be played anew"
        first, again = await self._played("first"), await self._played("again")
        if first != again:
            return unknown(
                what, "the same seed and actions went otherwise; an episode that is lost will fail"
            )
        return None

    async def _knows_none(self) -> Finding | None:
        body = {"turn": 1, "action": _ACTION}
        path = f"{self._episode('unknown')}/steps"
        try:
            await self.server.ask_once("POST", path, body, expected=GONE)
        except EpisodeLost:
            return None
        except RetryLater as error:
            raise ServerFailed("it gave no answer to a step of an episode never begun") from error
        return bad("an unknown episode is 404", "it answered a step of an episode never begun")

    async def _deletes_twice(self) -> Finding | None:
        await self._begin("delete")
        await self._delete("delete")
        await self._delete("delete")
        return None

    async def _played(self, name: str) -> list[str]:
        begun = await self._begin(name)
        stepped = await self._turns(name)
        await self._delete(name)
        return [digest(answer) for answer in (begun, *stepped)]

    async def _turns(self, name: str) -> list[Stepped]:
        """To the end of its episode, or as many as are looked at."""
        answers = list[Stepped]()
        for turn in range(1, _MOST_TURNS + 1):
            answers.append(await self._step(name, turn))
            if answers[-1].done or answers[-1].truncated:
                break
        return answers

    async def _begin(self, name: str) -> Begun:
        body = {
            "split": self.split,
            "task": 0,
            "seed": _SEED,
            "member": 0,
            "config": self.config,
        }
        return await self.server.ask(BEGUN, "PUT", self._episode(name), body)

    async def _step(self, name: str, turn: int) -> Stepped:
        body = {"turn": turn, "action": _ACTION}
        return await self.server.ask(STEPPED, "POST", f"{self._episode(name)}/steps", body)

    async def _score(self, name: str) -> Scored:
        return await self.server.ask(SCORED, "POST", f"{self._episode(name)}/score", {})

    async def _delete(self, name: str) -> None:
        try:
            await self.server.ask_once("DELETE", self._episode(name))
        except (EpisodeLost, RetryLater):
            raise ServerFailed("DELETE must be answered with 200, also a second time") from None

    def _episode(self, name: str) -> str:
        return f"episodes/check-{self.number}-{name}"
