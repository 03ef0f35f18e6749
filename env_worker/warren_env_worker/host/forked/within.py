"""What a forked process does: it plays episodes in the way that their class asks for."""

import asyncio
from typing import Any

from warren.environment import Env
from warren_broker.worker.child import Channel
from warren_env_worker.host.caller import Caller
from warren_env_worker.host.catalogue import Catalogue
from warren_env_worker.host.cell import Cell
from warren_env_worker.host.forked.fresh import Memory
from warren_env_worker.host.forked.in_turn import play_in_turn, play_one
from warren_env_worker.host.loops import is_async, serve_concurrently
from warren_env_worker.host.stage import Stage


def play(
    channel: Channel,
    cell: Cell,
    environment: type[Env[Any]],
    catalogue: Catalogue,
    began_s: float,
    *,
    reuses: bool,
) -> None:
    """Until the fork server hangs up, or this process is to be replaced."""
    memory = Memory(environment.limits.memory_mb)
    awaits = is_async(environment)
    stage = Stage(environment, Caller(cell, is_async=awaits), catalogue, memory.prepare)
    if awaits:
        asyncio.run(serve_concurrently(channel, stage))
    elif reuses:
        play_in_turn(channel, stage, memory, environment, began_s)
    else:
        play_one(channel, stage)
