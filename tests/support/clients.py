"""An environment like Warren's own clients, which are played in the env worker's process."""

import asyncio
import logging
from typing import ClassVar

from warren.environment import Context, Env, Limits, StepResult
from warren_env_worker.foreign.package_process import ProcessLost
from warren_env_worker.permissions.permissions import current

STEP_S = 0.05
log = logging.getLogger("warren_env_worker.tests.clients")


class Client(Env):
    """Does what the policy says, and echoes it."""

    name = "client"
    limits = Limits(step_s=STEP_S)
    closed: ClassVar[list[str]] = []
    waits: ClassVar[asyncio.Event]

    def __init__(self, url: str | None = None) -> None:
        if url is not None:
            current().service(url, None)

    async def reset(self, task: object, ctx: Context) -> str:
        self.said = list[str]()
        return "ready"

    async def step(self, action: str) -> StepResult:
        self.said.append(action)
        if action == "wait":
            Client.waits.set()
            await asyncio.Event().wait()
        if action == "trusted":
            return StepResult(str(current().is_trusted))
        if action.startswith("log "):
            log.warning(action)
        if action == "tell":
            log.warning("told %s", self.context.secrets["TOKEN"])
            raise ValueError(f"raised {self.context.secrets['TOKEN']}")
        return StepResult(action, reward=1.0, done=action == "end")

    async def close(self) -> None:
        Client.closed.append(" ".join(self.said))


class RetryingClient(Client):
    name = "patient_client"
    limits = Limits()


class LostClient(Client):
    """Loses the process of an episode, `n_losses` times in all."""

    name = "lost_client"
    n_losses: ClassVar[int]

    async def step(self, action: str) -> StepResult:
        if LostClient.n_losses > 0:
            LostClient.n_losses -= 1
            raise ProcessLost("its process was lost")
        return await super().step(action)


class ForgetfulClient(Client):
    name = "forgetful_client"
    replayable = False
