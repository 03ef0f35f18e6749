"""A sampler on two machines: it is offered while both are there, and a machine that leaves costs no turn."""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.base_models import tiny_models
from tests.support.forked_models import spawn_child
from tests.support.items import generate
from tests.support.machines import BASE, MissingTold, Others, leave, missing_told, spread_settings
from tests.support.open_turns import Claimed, request, submit_all
from tests.support.patience import PATIENCE_S
from tests.support.processes import forks_running
from tests.support.sampler_stage import LONG

from warren_gpu_worker.sampler.supervisor.child_process import Answered, SamplerProcess
from warren_gpu_worker.sampler.supervisor.open_turns import OpenTurn, OpenTurns, TurnSource
from warren_gpu_worker.settings import GpuWorkerSettings

__all__ = ["tiny_models"]


class Watched:
    """A sampler's process, and what comes of its turns."""

    def __init__(
        self, settings: GpuWorkerSettings, module: str = "tests.support.spread_child"
    ) -> None:
        self.turns = OpenTurns(100)
        self.given_back: asyncio.Queue[Sequence[OpenTurn]] = asyncio.Queue()
        self.answered: asyncio.Queue[Answered] = asyncio.Queue()
        self.process = SamplerProcess(
            BASE,
            settings,
            self.turns,
            self.answered.put_nowait,
            self.given_back.put_nowait,
            module=module,
            spawn_child=spawn_child,
        )

    @asynccontextmanager
    async def at_work(self) -> AsyncGenerator[None]:
        working = asyncio.create_task(self.process.run())
        try:
            async with asyncio.timeout(PATIENCE_S):
                yield
        finally:
            working.cancel()
            await asyncio.wait([working])


@pytest.fixture
def settings(tiny_models: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> GpuWorkerSettings:
    monkeypatch.setenv("PYTHONPATH", ".", prepend=os.pathsep)
    return spread_settings(Path(tiny_models["warren/tiny"]))


@pytest.fixture
def others(monkeypatch: pytest.MonkeyPatch) -> Generator[Others]:
    """Other machines. What is chosen for vLLM's network in this process is gone afterwards."""
    for name in ("VLLM_HOST_IP", "GLOO_SOCKET_IFNAME"):
        monkeypatch.setenv(name, "127.0.0.1")
    machines = Others()
    yield machines
    machines.close()


@pytest.fixture
def told() -> Generator[MissingTold]:
    with missing_told() as handler:
        yield handler


async def test_a_machine_that_leaves_costs_no_turn_and_nothing_is_offered_until_it_is_back(
    settings: GpuWorkerSettings, others: Others, told: MissingTold, caplog: pytest.LogCaptureFixture
) -> None:
    watched = Watched(settings)
    async with watched.at_work():
        assert await told.heard.get() == f"base: machines still missing at {settings.rendezvous}: 1"
        assert not watched.process.is_offered
        first = others.join(settings)
        await watched.process.ready()
        assert watched.process.is_offered
        long = [submit_long(watched) for _ in range(3)]
        leave(first.result())
        back = await watched.given_back.get()
        await told.heard.get()
        assert not watched.process.is_offered
        assert [(turn.id, turn.n_attempts) for turn in back] == [(turn.id, 0) for turn in long]
        others.join(settings)
        (short,) = submit_all(watched.process, watched.turns, None)
        ((answered, _),) = await watched.answered.get()
    assert answered is short
    assert "a machine over which vLLM is spread is gone" in caplog.text


async def test_a_child_that_dies_before_it_can_say_that_a_machine_is_lost_keeps_no_turn(
    settings: GpuWorkerSettings, others: Others, told: MissingTold
) -> None:
    watched = Watched(settings)
    async with watched.at_work():
        await told.heard.get()
        others.join(settings)
        await watched.process.ready()
        long = [submit_long(watched) for _ in range(3)]
        (pid,) = forks_running("tests.support.spread_child")
        os.kill(pid, signal.SIGKILL)
        assert list(await watched.given_back.get()) == long
        assert watched.turns.n_owed == 0


async def test_an_engine_that_fails_for_a_lost_machine_does_not_end_the_worker(
    settings: GpuWorkerSettings, others: Others, told: MissingTold, caplog: pytest.LogCaptureFixture
) -> None:
    watched = Watched(settings, "tests.support.failing_spread_child")
    async with watched.at_work():
        await told.heard.get()
        others.join(settings).add_done_callback(lambda joined: leave(joined.result()))
        await told.heard.get()
    assert "a machine over which vLLM is spread is gone" in caplog.text


def submit_long(watched: Watched) -> OpenTurn:
    (turn,) = watched.turns.open([Claimed(generate())], TurnSource.SHARED)
    asked = replace(request(turn.id), sampling=LONG)
    watched.turns.owe(turn, asked)
    watched.process.submit_turns([asked])
    return turn
