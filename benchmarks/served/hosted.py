"""Steps as an env worker takes them: by its host, whose child process has the environment."""

from contextlib import AsyncExitStack
from functools import partial
from typing import Any

from benchmarks.served.loop import Step
from tests.support.hosting import Player, hosting, observed
from tests.support.interacting import spec

from warren_env_worker.host.host import Host
from warren_env_worker.host.protocol import Observed
from warren_schemas.episode import TaskRef
from warren_schemas.transcript import Transcript

MAX_TURNS = 1_000_000
"""More than are ever played."""


class Hosted:
    """Episodes that always say the same."""

    def __init__(self, reference: str, name: str, action: str) -> None:
        self._reference = reference
        self._name = name
        self._action = action
        self._host: Host | None = None

    async def episode(self, stack: AsyncExitStack, number: int, **config: Any) -> Step:
        if self._host is None:
            self._host = await stack.enter_async_context(hosting(self._reference))
        task = TaskRef(index=number % 20, split="train")
        of = spec(self._name, environment_config=config, task=task, max_turns=MAX_TURNS)
        player = Player(self._host, of)
        await observed(player.reset())
        return partial(self._first_step, player, player.transcript)

    async def _first_step(self, player: Player, begun: Transcript) -> Observed:
        """Each step as if it were the first: copies of a transcript of thousands of turns, which no
        episode has, would take longer than the step."""
        player.transcript = begun
        return await observed(player.step(self._action))
