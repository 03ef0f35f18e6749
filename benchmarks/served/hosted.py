"""Steps as an env worker takes them: requests to its host, and their answers."""

import asyncio
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

from benchmarks.served.loop import Step
from tests.support.hosting import Player, hosting, observed
from tests.support.interacting import spec

from warren_env_worker.host.host import Host
from warren_env_worker.host.protocol import Answer
from warren_env_worker.host.request import Request
from warren_schemas.episode import TaskRef
from warren_schemas.transcript import ChatMessage

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
        return partial(self._step, self._host, self._first_request(player))

    def _first_request(self, player: Player) -> Request:
        """Each step asks it: copies of a transcript of thousands of turns, which no episode has, would take longer than
        the step."""
        said = ChatMessage(role="assistant", content=self._action)
        messages = (*player.transcript.messages, said)
        transcript = player.transcript.model_copy(update={"messages": messages})
        return Request(player.slot, player.spec, transcript, lambda _answer: None)

    async def _step(self, host: Host, asked: Request) -> None:
        answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        asked.answer = answered.set_result
        host.submit_request(asked)
        await observed(answered)
