"""An agent that is played elsewhere: each episode is offered at a socket, and ends as is answered there.

The module has a class for every name that `sockets` gives a meaning: `OfferedAt_1f2e`.
"""

import asyncio
import re

from pydantic import ValidationError

from warren.agents.environment import Agent, AgentEnv, AgentFailed
from warren.episodes.messages import Offer, Outcome
from warren.episodes.sockets import PREFIX, socket_path

GONE = "whoever played it has gone, or let it go"


class Offered(AgentEnv[None]):
    """Subclasses say where: `token`."""

    name = "offered"
    token = ""

    async def run(self, task: None, agent: Agent) -> float | None:
        reader, writer = await asyncio.open_unix_connection(socket_path(self.token))
        try:
            writer.write(_offer(agent).model_dump_json().encode() + b"\n")
            outcome = _read(await reader.readline())
        finally:
            writer.close()
        if outcome.failure is not None:
            raise AgentFailed(outcome.failure)
        agent.metrics.update(outcome.metrics)
        return outcome.reward


def _offer(agent: Agent) -> Offer:
    context = agent.context
    return Offer(
        base_url=agent.base_url,
        root_url=agent.root_url,
        api_key=agent.api_key,
        split=context.split,
        index=context.index,
        member=context.member,
        seed=context.seed,
    )


def _read(line: bytes) -> Outcome:
    try:
        return Outcome.model_validate_json(line)
    except ValidationError:
        raise AgentFailed(GONE) from None


def __getattr__(name: str) -> type[Offered]:
    if not re.fullmatch(f"{PREFIX}[0-9a-f]+", name):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return type(name, (Offered,), {"token": name.removeprefix(PREFIX)})
