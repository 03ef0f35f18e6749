"""A sampler whose device has too little memory goes on with fewer turns at once, and refuses what never fits."""

import asyncio
import os
from collections.abc import Sequence
from dataclasses import replace

import pytest
from tests.support.base_models import tiny_models
from tests.support.forked_models import spawn_child
from tests.support.items import generate
from tests.support.open_turns import Claimed, request
from tests.support.patience import PATIENCE_S

from warren_gpu_worker.sampler.engines.port import Refusal
from warren_gpu_worker.sampler.messages import FinishedTurn, TurnAnswer
from warren_gpu_worker.sampler.supervisor.child_process import Answered, SamplerProcess
from warren_gpu_worker.sampler.supervisor.open_turns import OpenTurn, OpenTurns, TurnSource
from warren_gpu_worker.settings import GpuWorkerSettings
from warren_schemas.episode import FailureKind

__all__ = ["tiny_models"]

LONG = "word " * 60


class Sampled:
    """All answers of a process to these words, which it had in hand at once."""

    def __init__(self, folder: str, words: Sequence[str]) -> None:
        settings = GpuWorkerSettings(
            base_models={"warren/tiny": folder}, device="cpu", max_batch=16
        )
        self.turns = OpenTurns(100)
        self.answers: list[TurnAnswer] = []
        self._words = words
        self._is_done = asyncio.Event()
        self._process = SamplerProcess(
            "warren/tiny", settings, self.turns, self._answered, self._given_back,
            module="tests.support.small_memory_child", spawn_child=spawn_child,
        )  # fmt: skip

    async def run(self) -> list[OpenTurn]:
        opened = self.turns.open([Claimed(generate()) for _ in self._words], TurnSource.SHARED)
        for turn, said in zip(opened, self._words, strict=True):
            self.turns.owe(turn, replace(request(turn.id), messages=(("user", said),)))
        self._process.submit_turns([turn.request for turn in opened if turn.request])
        working = asyncio.create_task(self._process.run())
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self._is_done.wait()
        finally:
            working.cancel()
            await asyncio.wait([working])
        return opened

    def _answered(self, answered: Answered) -> None:
        self.answers += [answer for _, answer in answered]
        if len(self.answers) == len(self._words):
            self._is_done.set()

    def _given_back(self, turns: Sequence[OpenTurn]) -> None:
        pytest.fail(f"{len(turns)} turns were given back")


@pytest.fixture
def folder(tiny_models: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("PYTHONPATH", ".", prepend=os.pathsep)
    return tiny_models["warren/tiny"]


async def test_more_turns_than_there_is_memory_for_are_all_answered(
    folder: str, caplog: pytest.LogCaptureFixture
) -> None:
    sampled = Sampled(folder, [f"{n}?" for n in range(6)])
    await sampled.run()
    assert all(isinstance(answer, FinishedTurn) for answer in sampled.answers)
    told = [r.getMessage() for r in caplog.records if "goes on with" in r.getMessage()]
    assert [one.partition("goes on with ")[2][:1] for one in told] == ["3"]
    assert "--max-batch 3" in told[-1]
    assert "Tried to allocate 2.00 GiB" in told[-1]


async def test_a_turn_that_never_fits_is_refused_and_the_other_one_is_answered(folder: str) -> None:
    sampled = Sampled(folder, ["?", LONG])
    opened = await sampled.run()
    (refused,) = [answer for answer in sampled.answers if isinstance(answer, Refusal)]
    assert refused.id == opened[1].id
    assert refused.kind is FailureKind.SAMPLER_ERROR
    assert "no memory for this turn, even alone" in refused.reason
    assert "--max-context" in refused.reason
