"""Agents of several threads in one process, each with an event loop of its own."""

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest
from tests.support.patience import PATIENCE_S
from tests.support.processes import listens

from warren import Agent, AgentEnv
from warren.agents.endpoint import endpoint, stop_endpoint
from warren.environment import ChatMessage
from warren.testing import play

N_THREADS = 2


def test_each_event_loop_lets_go_of_its_own_endpoint_however_many_there_are() -> None:
    all_serve = threading.Barrier(N_THREADS)

    async def served() -> int:
        address = (await endpoint()).address
        all_serve.wait(PATIENCE_S)
        await stop_endpoint()
        return int(address.rpartition(":")[2])

    with ThreadPoolExecutor(N_THREADS) as threads:
        serving = [threads.submit(lambda: asyncio.run(served())) for _ in range(N_THREADS)]
        ports = {each.result(PATIENCE_S) for each in serving}
    assert len(ports) == N_THREADS
    assert not any(map(listens, ports))


class Lingering(AgentEnv):
    """Asks once, and goes on in its thread until it is let go."""

    def __init__(self) -> None:
        self.is_let_go = threading.Event()

    def run(self, task: None, agent: Agent) -> float:
        self.thread = threading.current_thread()
        headers = {"Authorization": f"Bearer {agent.api_key}", "Content-Type": "application/json"}
        body = b'{"model": "m", "messages": [{"role": "user", "content": "?"}]}'
        with suppress(URLError):
            urlopen(Request(f"{agent.base_url}/chat/completions", body, headers)).close()
        self.is_let_go.wait(PATIENCE_S)
        return 1.0


def test_nobody_hears_of_an_agent_that_ends_after_the_event_loop_of_its_episode() -> None:
    def policy(_: Sequence[ChatMessage]) -> str:
        raise ZeroDivisionError

    agent = Lingering()
    with pytest.raises(ZeroDivisionError):
        play(agent, policy)
    agent.is_let_go.set()
    agent.thread.join(PATIENCE_S)
    assert not agent.thread.is_alive()
