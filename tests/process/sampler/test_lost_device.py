"""A sampler whose device is lost gives back what it held at once, and says what happened to it."""

import asyncio
import os
from collections.abc import Sequence

import pytest
from tests.support.base_models import tiny_models
from tests.support.forked_models import spawn_child
from tests.support.items import generate
from tests.support.open_turns import Claimed, request
from tests.support.patience import PATIENCE_S

from warren_gpu_worker.sampler.supervisor.child_process import Answered, SamplerProcess
from warren_gpu_worker.sampler.supervisor.open_turns import OpenTurn, OpenTurns, TurnSource
from warren_gpu_worker.settings import GpuWorkerSettings

__all__ = ["tiny_models"]


@pytest.fixture
def settings(tiny_models: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> GpuWorkerSettings:
    monkeypatch.setenv("PYTHONPATH", ".", prepend=os.pathsep)
    return GpuWorkerSettings(base_models=tiny_models, device="cpu")


def no_answers(answered: Answered) -> None:
    pytest.fail(f"{len(answered)} turns were answered")


async def test_what_it_held_is_given_back_unblamed_and_the_fault_is_told(
    settings: GpuWorkerSettings, caplog: pytest.LogCaptureFixture
) -> None:
    given_back: asyncio.Future[Sequence[OpenTurn]] = asyncio.get_running_loop().create_future()
    turns = OpenTurns(100)
    process = SamplerProcess(
        "warren/tiny",
        settings,
        turns,
        no_answers,
        given_back.set_result,
        module="tests.support.lost_device_child",
        spawn_child=spawn_child,
    )
    opened = turns.open([Claimed(generate()) for _ in range(3)], TurnSource.SHARED)
    for turn in opened:
        turns.owe(turn, request(turn.id))
    process.submit_turns([turn.request for turn in opened if turn.request])
    working = asyncio.create_task(process.run())
    try:
        async with asyncio.timeout(PATIENCE_S):
            back = await given_back
    finally:
        working.cancel()
        await asyncio.wait([working])
    assert {turn.id for turn in back} == {turn.id for turn in opened}
    assert [turn.n_attempts for turn in back] == [0, 0, 0]
    assert "the sampler's device failed: the GPU's memory has an error" in caplog.text
    assert "nvidia-smi --gpu-reset" in caplog.text
