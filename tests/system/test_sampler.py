"""The sampler end to end: `Generate` in, `Step` out, with the engine in a real child process."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.support.base_models import tiny_models
from tests.support.episodes import (
    EnvironmentSide,
    environment_side,
    first_turn,
    next_turn,
    policy,
    sampled_ids,
    user,
)
from warren_broker.memory import MemoryHub, open_hub
from warren_gpu_worker.base_models import load_base
from warren_gpu_worker.sampler.service import serve_sampler
from warren_gpu_worker.settings import GpuWorkerSettings
from warren_gpu_worker.weights import save_policy
from warren_schemas.config import Sampling
from warren_schemas.episode import Completed, FailureKind, FinishReason

__all__ = ["tiny_models"]


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncGenerator[MemoryHub]:
    async with open_hub(tmp_path / "broker") as hub:
        yield hub


@asynccontextmanager
async def sampler(hub: MemoryHub, settings: GpuWorkerSettings) -> AsyncGenerator[asyncio.Task]:
    broker = hub.client("sampler")
    task = asyncio.create_task(serve_sampler(broker, settings))
    try:
        yield task
    finally:
        started_s = time.monotonic()
        task.cancel()
        await asyncio.wait([task])
        await broker.close()
        assert time.monotonic() - started_s < 5.0


def settings_of(models: dict[str, str], log_dir: Path) -> GpuWorkerSettings:
    return GpuWorkerSettings(base_models=models, roles=frozenset({"sampler"}), log_dir=log_dir)


@pytest.fixture
def settings(tiny_models: dict[str, str], tmp_path: Path) -> GpuWorkerSettings:
    return settings_of({"warren/tiny": tiny_models["warren/tiny"]}, tmp_path)


async def test_episodes_of_several_turns(hub: MemoryHub, settings: GpuWorkerSettings) -> None:
    async with sampler(hub, settings), environment_side(hub) as side:
        acting = policy()
        turns = [first_turn(acting) for _ in range(100)]
        for n_turns in (1, 2, 3):
            steps = await side.ask(turns)
            for turn, step in zip(turns, steps, strict=True):
                before, after = turn.transcript.tokens, step.transcript.tokens
                assert after.ids_T[: len(before)].tolist() == before.ids_T.tolist()
                assert step.turn == n_turns
                assert step.transcript.n_rendered == len(step.transcript.messages) == 2 * n_turns
                assert set(after.versions_T[after.mask_T == 1].tolist()) == {0}
            turns = [next_turn(step, user(">")) for step in steps]


def _child_pids() -> list[int]:
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    named = {int(p): Path(f"/proc/{p}/cmdline").read_bytes() for p in children}
    return [pid for pid, command in named.items() if b"sampler.child" in command]


async def test_a_child_killed_in_the_middle_costs_no_answer(
    hub: MemoryHub, settings: GpuWorkerSettings
) -> None:
    async with sampler(hub, settings), environment_side(hub) as side:
        await side.ask([first_turn(policy())])
        (pid,) = _child_pids()
        long = Sampling(max_tokens=400)
        turns = [first_turn(policy(), sampling=long) for _ in range(200)]
        await side.send(turns)
        steps = await side.steps(10)
        os.kill(pid, signal.SIGKILL)
        steps += await side.steps(200 - len(steps))
        assert {s.envelope.episode for s in steps} == {t.envelope.episode for t in turns}
        assert _child_pids() != [pid]
