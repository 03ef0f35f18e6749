"""Environments whose episodes wait between two turns, until what they are played on was killed: a server, or foreign processes.

The tiny model calls no tool and plays no game, and what it says may end an episode: its first turns are replaced by words that
go on. So what was killed has been used once, and is used again after. Episodes of an evaluation have no second member, and don't
wait.
"""

import os
from collections.abc import AsyncGenerator, Awaitable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

from tests.ecosystems.ors.serving import call
from tests.support.brokers import eventually

from warren.environment import Context, Env, StepResult
from warren_env_worker.environments.alfworld.environment import AlfWorld
from warren_env_worker.environments.gem.environment import Gem
from warren_env_worker.environments.gymnasium.environment import Gymnasium
from warren_env_worker.environments.http.environment import Http
from warren_env_worker.environments.mcp.environment import Mcp
from warren_env_worker.environments.nemo_gym.environment import NemoGym
from warren_env_worker.environments.nemo_gym.stepping import NemoGymnasium
from warren_env_worker.environments.openenv.environment import OpenEnv
from warren_env_worker.environments.ors.environment import Ors
from warren_env_worker.environments.textarena.environment import TextArena
from warren_env_worker.environments.textworld.environment import TextWorld
from warren_schemas.ids import new_id

EnvT = TypeVar("EnvT", bound=Env[Any])
HELD_IN = "TESTS_HELD_IN"
"""Variable of the folder in which each episode that waits leaves a file; with another prefix than `WARREN_`, which hosts are not given."""
GO_ON, WENT_ON = "go-on", "went-on"
SECOND_TURN = 2


@asynccontextmanager
async def _waiting(context: Context, turn: int) -> AsyncGenerator[None]:
    """Around a turn: the second one waits, and tells once it was answered."""
    folder = Path(os.environ[HELD_IN])

    async def may_go_on() -> bool:
        return (folder / GO_ON).exists()

    waits = turn == SECOND_TURN and context.member > 0 and not await may_go_on()
    if waits:
        (folder / new_id("held")).touch()
        await eventually(may_go_on)
    yield
    if waits:
        (folder / WENT_ON).touch()


def held(of: type[EnvT], *first: str) -> type[EnvT]:
    """A class of it with these words as its first turns."""

    async def step(self: Any, action: str) -> StepResult:
        self.n_steps += 1
        turn: int = self.n_steps
        async with _waiting(self.context, turn):
            answered = of.step(self, action if turn > len(first) else first[turn - 1])
            assert isinstance(answered, Awaitable)
            return await answered

    made = {"__module__": __name__, "n_steps": 0, "step": step}
    return cast(type[EnvT], type(f"Held{of.__name__}", (of,), made))


_COUNT = call("increment_counter", count=1)
_PUT = call("put", article="tea")
HeldOrs = held(Ors, call("look", place=1), call("look", place=2))
HeldOpenEnv = held(OpenEnv, "1", "2")
HeldNemoGym = held(NemoGym, _COUNT, _COUNT)
HeldNemoGymnasium = held(NemoGymnasium)
HeldMcp = held(Mcp, _PUT, _PUT)
HeldHttp = held(Http, "1", "2")
HeldGymnasium = held(Gymnasium, "down", "down")
HeldTextArena = held(TextArena, "[1]", "[2]")
HeldGem = held(Gem, "\\boxed{1}", "\\boxed{2}")
HeldTextWorld = held(TextWorld, "look", "inventory")
HeldAlfWorld = held(AlfWorld, "look", "inventory")
