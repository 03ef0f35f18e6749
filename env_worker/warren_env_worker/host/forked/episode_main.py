"""Main function of a forked process: plays episodes as their class asks for."""

import asyncio
import socket
from typing import Any

from warren.environment import Env
from warren_broker.worker.channel import Channel
from warren_env_worker.host.call_status import CallStatus
from warren_env_worker.host.child.caller import Caller
from warren_env_worker.host.child.live_episodes import LiveEpisodes
from warren_env_worker.host.child.loops import is_async
from warren_env_worker.host.child.side_by_side import SideBySide
from warren_env_worker.host.child.task_cache import TaskCache
from warren_env_worker.host.forked.fresh import Memory
from warren_env_worker.host.forked.in_turn import InTurn, play_one
from warren_env_worker.host.forked.leftovers import Leftovers, Template
from warren_env_worker.host.forked.server import Server
from warren_env_worker.host.late import raisable_s


def play(
    talk: socket.socket,
    status: CallStatus,
    environment: type[Env[Any]],
    task_cache: TaskCache,
    template: Template | None,
) -> None:
    """Until the fork server hangs up, or this process is to be replaced.

    With the template that this process was forked from, it may play several episodes.
    """
    memory = Memory(environment.limits.memory_mb)
    awaits = is_async(environment)
    episodes = LiveEpisodes(
        environment,
        Caller(status, is_async=awaits, limits_s=raisable_s(environment)),
        task_cache,
        memory.prepare,
    )
    if awaits:
        asyncio.run(SideBySide(Channel(talk), episodes).serve())
    elif template is None:
        play_one(Server(talk), episodes)
    else:
        n_episodes = environment.limits.episodes_per_process
        has_close = environment.close is not Env.close
        leftovers = Leftovers(template, memory)
        InTurn(
            Server(talk), status, episodes, leftovers, n_episodes=n_episodes, has_close=has_close
        ).play()
