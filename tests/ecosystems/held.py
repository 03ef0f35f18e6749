"""Environments of servers whose episodes wait between two turns, until their server was killed.

The tiny model calls no tool, and what it says ends an episode: its first turns are replaced by words that call the server. So
a session has been used once, and is used again after the kill. Episodes of an evaluation have no second member, and don't wait.
"""

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.ecosystems.ors.serving import call
from tests.support.brokers import eventually

from warren.environment import Context, StepResult
from warren_env_worker.environments.http.environment import Http
from warren_env_worker.environments.mcp.environment import Mcp
from warren_env_worker.environments.nemo_gym.environment import NemoGym
from warren_env_worker.environments.nemo_gym.stepping import NemoGymnasium
from warren_env_worker.environments.openenv.environment import OpenEnv
from warren_env_worker.environments.ors.environment import Ors
from warren_schemas.ids import new_id

HELD_IN = "TESTS_HELD_IN"
"""Variable of the folder in which each episode that waits leaves a file; with another prefix than `WARREN_`, which hosts are not given."""
GO_ON, WENT_ON = "go-on", "went-on"
FIRST_TURN, SECOND_TURN = 1, 2


@asynccontextmanager
async def held(context: Context, turn: int) -> AsyncGenerator[None]:
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


class HeldOrs(Ors):
    n_steps = 0

    async def step(self, action: str) -> StepResult:
        self.n_steps += 1
        words = action if self.n_steps > SECOND_TURN else call("look", place=self.n_steps)
        async with held(self.context, self.n_steps):
            return await super().step(words)


class HeldOpenEnv(OpenEnv):
    n_steps = 0

    async def step(self, action: str) -> StepResult:
        self.n_steps += 1
        words = action if self.n_steps > SECOND_TURN else str(self.n_steps)
        async with held(self.context, self.n_steps):
            return await super().step(words)


class HeldNemoGym(NemoGym):
    n_steps = 0

    async def step(self, action: str) -> StepResult:
        self.n_steps += 1
        counted = call("increment_counter", count=1)
        async with held(self.context, self.n_steps):
            return await super().step(action if self.n_steps > SECOND_TURN else counted)


class HeldNemoGymnasium(NemoGymnasium):
    n_steps = 0

    async def step(self, action: str) -> StepResult:
        self.n_steps += 1
        async with held(self.context, self.n_steps):
            return await super().step(action)


class HeldMcp(Mcp):
    n_steps = 0

    async def step(self, action: str) -> StepResult:
        self.n_steps += 1
        words = action if self.n_steps > SECOND_TURN else call("put", article="tea")
        async with held(self.context, self.n_steps):
            return await super().step(words)


class HeldHttp(Http):
    n_steps = 0

    async def step(self, action: str) -> StepResult:
        self.n_steps += 1
        words = action if self.n_steps > SECOND_TURN else str(self.n_steps)
        async with held(self.context, self.n_steps):
            return await super().step(words)
