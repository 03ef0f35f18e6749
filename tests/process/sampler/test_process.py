"""The child may die, hang or stammer: every request is answered once, or cancelled."""

import asyncio
import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.open_turns import submit_all
from tests.support.patience import PATIENCE_S

from warren_gpu_worker.sampler.engines.port import Refusal
from warren_gpu_worker.sampler.messages import FinishedTurn, TurnAnswer
from warren_gpu_worker.sampler.supervisor.child_process import (
    MAX_ATTEMPTS,
    Answered,
    SamplerBroken,
    SamplerProcess,
)
from warren_gpu_worker.sampler.supervisor.open_turns import OpenTurn, OpenTurns
from warren_gpu_worker.settings import GpuWorkerSettings
from warren_schemas.episode import FailureKind

FAKE = "tests.support.fake_sampler_child"


class Supervised:
    """A process and what it has answered so far."""

    def __init__(self, how: str, **fields: Any) -> None:
        settings = GpuWorkerSettings.model_validate({"base_models": {how: "/nowhere"}, **fields})
        self.turns = OpenTurns(100)
        self.process = SamplerProcess(
            how, settings, self.turns, self._answered, self._given_back, module=FAKE
        )
        self.given_back: asyncio.Queue[Sequence[int]] = asyncio.Queue()
        self.answers: list[TurnAnswer] = []
        self._arrived = asyncio.Event()

    def ask(self, *forced_actions: str | None) -> list[int]:
        """The ids of the turns that the child owes from now on."""
        return [turn.id for turn in submit_all(self.process, self.turns, *forced_actions)]

    def _answered(self, answered: Answered) -> None:
        self.answers += [answer for _, answer in answered]
        self._arrived.set()

    def _given_back(self, turns: Sequence[OpenTurn]) -> None:
        self.given_back.put_nowait([turn.id for turn in turns])

    async def until_finished(self) -> None:
        """Ask until an answer is no refusal: a busy machine may keep a healthy child silent too."""
        while isinstance(self.answers[-1], Refusal):
            self.ask(None)
            await self.until(len(self.answers) + 1)

    async def until(self, n_answers: int) -> list[TurnAnswer]:
        async with asyncio.timeout(PATIENCE_S):
            while len(self.answers) < n_answers:
                self._arrived.clear()
                await self._arrived.wait()
        return self.answers


@asynccontextmanager
async def supervised(
    how: str, monkeypatch: pytest.MonkeyPatch, **fields: Any
) -> AsyncGenerator[Supervised]:
    monkeypatch.setenv("PYTHONPATH", ".", prepend=os.pathsep)
    it = Supervised(how, **fields)
    task = asyncio.create_task(it.process.run())
    try:
        yield it
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_every_request_is_answered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async with supervised("repeats", monkeypatch) as it:
        asked = it.ask(*[None] * 50)
        await it.until(50)
        asked += it.ask(None)
        await it.until(51)
        assert sorted(a.id for a in it.answers) == sorted(asked)
        assert it.turns.n_owed == 0


async def test_a_request_that_kills_is_given_up_and_the_others_are_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with supervised("dies", monkeypatch) as it:
        it.ask(None)
        (first,) = await it.until(1)
        it.ask("die")
        (_, refused) = await it.until(2)
        assert isinstance(refused, Refusal)
        assert refused.kind is FailureKind.SAMPLER_ERROR
        assert str(MAX_ATTEMPTS) in refused.reason
        it.ask(None)
        last = (await it.until(3))[-1]
        assert isinstance(first, FinishedTurn)
        assert isinstance(last, FinishedTurn)
        assert first.text != last.text, "another child answered"


async def test_a_child_that_hangs_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    async with supervised("hangs", monkeypatch, hang_s=0.5) as it:
        it.ask("hang")
        (refused,) = await it.until(1)
        assert isinstance(refused, Refusal)
        async with asyncio.timeout(PATIENCE_S):
            await it.until_finished()


async def test_cancelled_requests_are_not_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    async with supervised("repeats", monkeypatch) as it:
        first, second = it.ask(None, None)
        assert [turn.id for turn in it.process.cancel_turns([first, 77])] == [first]
        assert not it.process.cancel_turns([first])
        (only,) = await it.until(1)
        assert only.id == second


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("broken", "no chat template"),
        ("stillborn", "exit code 3"),
        ("always-killed", "killed by SIGKILL"),
    ],
)
async def test_a_model_that_never_comes_up_is_reported(
    how: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", ".", prepend=os.pathsep)
    with pytest.raises(SamplerBroken, match=reason):
        await Supervised(how).process.run()


async def test_a_child_that_is_killed_while_it_starts_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = {"killed-once": str(tmp_path / "seen")}
    async with supervised("killed-once", monkeypatch, base_models=models) as it:
        await asyncio.wait_for(it.process.ready(), PATIENCE_S)
        assert (tmp_path / "seen").exists()


async def test_turns_are_given_back_when_no_new_child_comes_up_and_another_one_may_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_the_way = tmp_path / "in the way"
    models = {"relapses": str(in_the_way)}
    async with supervised("relapses", monkeypatch, base_models=models) as it:
        await asyncio.wait_for(it.process.ready(), PATIENCE_S)
        assert it.process.is_offered
        in_the_way.touch()
        asked = it.ask("die")
        assert await asyncio.wait_for(it.given_back.get(), PATIENCE_S) == asked
        assert not it.process.is_offered
        assert not it.process.has_child
        in_the_way.unlink()
        (asked,) = it.ask(None)
        (answer,) = await it.until(1)
        assert answer.id == asked
        assert it.process.is_offered


async def test_a_child_that_the_system_can_not_start_for_a_while_comes_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = tmp_path / "logs"
    async with supervised("dies", monkeypatch, log_dir=logs) as it:
        await asyncio.wait_for(it.process.ready(), PATIENCE_S)
        logs.rename(tmp_path / "old")
        logs.touch()
        it.ask("die")
        await asyncio.wait_for(it.given_back.get(), PATIENCE_S)
        logs.unlink()
        (asked,) = it.ask(None)
        (answer,) = await it.until(1)
        assert answer.id == asked
