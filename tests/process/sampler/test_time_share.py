"""Sampler and trainer have the memory of one GPU in turn, whoever dies, sleeps badly or is greedy."""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from pathlib import Path

import pytest
from tests.support.open_turns import submit_all
from tests.support.patience import PATIENCE_S
from tests.support.time_share_children import VARIABLE
from tests.support.trainer import FULL, LORA, MODEL

from warren_gpu_worker.fitting import DeviceMemory
from warren_gpu_worker.sampler.supervisor.child_process import Answered, SamplerProcess
from warren_gpu_worker.sampler.supervisor.open_turns import OpenTurn, OpenTurns
from warren_gpu_worker.settings import GpuWorkerSettings, VllmSettings
from warren_gpu_worker.time_share import TimeShare, TimeShareLimits, TrainerHold
from warren_gpu_worker.trainer.messages import (
    Answer,
    Apply,
    Offload,
    Open,
    unpack_order,
)
from warren_gpu_worker.trainer.supervisor.child_process import TrainerProcess
from warren_gpu_worker.trainer.supervisor.rank_processes import RankProcesses
from warren_schemas.ids import ModelId
from warren_schemas.training import KeepReference, ModelSpec, OpBody, SaveState

CHILD = "tests.support.time_share_children"
QUICK = TimeShareLimits(keep_s=0.05, hold_s=0.1, linger_s=0.02)


async def settle() -> None:
    """Let every task get as far as it can without time passing."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_the_trainer_waits_for_every_sampler_and_samplers_for_the_trainer() -> None:
    time_share = TimeShare()
    await time_share.acquire_for_sampling()
    await time_share.acquire_for_sampling()
    taking = asyncio.create_task(time_share.acquire_for_training())
    await asyncio.wait_for(time_share.until_asked_for(), PATIENCE_S)
    time_share.release_from_sampling()
    entering = asyncio.create_task(time_share.acquire_for_sampling())
    await settle()
    assert not taking.done()
    time_share.release_from_sampling()
    await asyncio.wait_for(taking, PATIENCE_S)
    await settle()
    assert not entering.done()
    time_share.release_from_training()
    await asyncio.wait_for(entering, PATIENCE_S)


async def test_whoever_waits_for_the_gpu_has_it_before_the_trainer_comes_again() -> None:
    time_share = TimeShare()
    await time_share.acquire_for_training()
    entering = asyncio.create_task(time_share.acquire_for_sampling())
    await settle()
    taking = asyncio.create_task(time_share.acquire_for_training())
    time_share.release_from_training()
    await asyncio.wait_for(entering, PATIENCE_S)
    await settle()
    assert not taking.done()
    time_share.release_from_sampling()
    await asyncio.wait_for(taking, PATIENCE_S)


async def test_a_trainer_that_no_longer_waits_leaves_the_gpu_to_samplers() -> None:
    time_share = TimeShare()
    await time_share.acquire_for_sampling()
    taking = asyncio.create_task(time_share.acquire_for_training())
    await time_share.until_asked_for()
    taking.cancel()
    await asyncio.wait([taking])
    await asyncio.wait_for(time_share.acquire_for_sampling(), PATIENCE_S)


async def test_the_trainer_stays_until_it_is_idle_or_has_had_its_time_and_is_missed() -> None:
    nudged = asyncio.Event()
    time_share = TimeShare(TimeShareLimits(hold_s=1000.0, linger_s=0.01))
    hold = TrainerHold(time_share, nudged.set)
    await hold.acquire()
    assert not hold.must_release(has_work=False)
    time_share.miss()
    assert nudged.is_set()
    assert not hold.must_release(has_work=True)
    nudged.clear()
    while not hold.must_release(has_work=False):
        await asyncio.wait_for(nudged.wait(), PATIENCE_S)
        nudged.clear()
    assert hold.must_release(has_work=True), "it is on its way: nothing may begin any more"
    hold.release()
    assert not hold.must_release(has_work=True)
    time_share.limits = TimeShareLimits(hold_s=0.0)
    await hold.acquire()
    assert not hold.must_release(has_work=True), "nobody misses it yet"
    time_share.miss()
    assert hold.must_release(has_work=True)


class Pair:
    """A sampler and a trainer of one worker, whose children need the same memory."""

    def __init__(self, how: str, sampler_hang_s: float, ranks: type[RankProcesses]) -> None:
        asked = VllmSettings(sleep="while_training")
        settings = GpuWorkerSettings(base_models={how: "/nowhere"}, vllm=asked)
        impatient = settings.model_copy(update={"hang_s": sampler_hang_s})
        self.time_share = time_share = TimeShare(QUICK)
        self._turns = OpenTurns(100)
        self.sampler = SamplerProcess(
            how,
            impatient,
            self._turns,
            self._answered,
            self._given_back,
            time_share=time_share,
            module=CHILD,
        )
        self.trainer = TrainerProcess(
            "trainer", settings, self, time_share, partial(ranks.spawn, module=CHILD)
        )
        self.n_turns = 0
        self.n_deaths = 0
        self.is_greedy = False
        self.answers: dict[int, Answer] = {}
        self._epochs = count(1)
        self._epoch = 0
        self._changed = asyncio.Event()

    def _given_back(self, turns: Sequence[OpenTurn]) -> None:
        raise AssertionError(f"a new child came up, and yet {turns} were given back")

    def ask(self, n: int = 1) -> None:
        submit_all(self.sampler, self._turns, *[None] * n)

    async def open(self, spec: ModelSpec = FULL) -> None:
        self._epoch = next(self._epochs)
        self.answers.clear()
        async with asyncio.timeout(PATIENCE_S):
            await self.trainer.until_ready()
        self.trainer.order(Open(MODEL, self._epoch, spec, None, 1))
        await self.until(lambda: 0 in self.answers)

    def order(self, first: int, *ops: OpBody) -> None:
        self.trainer.order(Apply(MODEL, self._epoch, tuple(enumerate(ops, first))))

    async def apply(self, first: int, *ops: OpBody) -> None:
        self.order(first, *ops)
        await self.until(lambda: first + len(ops) - 1 in self.answers)

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not holds():
                self._changed.clear()
                await self._changed.wait()

    async def until_turns(self, n: int) -> None:
        await self.until(lambda: self.n_turns >= n)

    def _answered(self, answered: Answered) -> None:
        self.n_turns += len(answered)
        self._changed.set()
        if self.is_greedy:
            self.ask(len(answered))

    def on_ready(self, memory: DeviceMemory | None) -> None:
        pass

    def on_answer(self, answer: Answer) -> None:
        self.answers[answer.number] = answer
        self._changed.set()

    def on_disk_full(self, model: ModelId) -> None:
        pass

    def on_death(self, reason: str) -> None:
        self.n_deaths += 1
        self._changed.set()


@asynccontextmanager
async def pair(
    how: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    sampler_hang_s: float = 300.0,
    ranks: type[RankProcesses] = RankProcesses,
) -> AsyncGenerator[Pair]:
    monkeypatch.setenv("PYTHONPATH", ".", prepend=os.pathsep)
    monkeypatch.setenv(VARIABLE, str(folder / "memory"))
    it = Pair(how, sampler_hang_s, ranks)
    tasks = [asyncio.create_task(it.sampler.run()), asyncio.create_task(it.trainer.run())]
    try:
        it.ask()
        await it.until_turns(1)
        yield it
        assert not (folder / "memory.crowded").exists()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def test_both_get_on_while_both_have_more_work_than_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with pair("obeys", tmp_path, monkeypatch) as it:
        it.is_greedy = True
        it.ask(4)
        await it.open()
        for stretch in range(4):  # each takes longer than the trainer may hold
            n_before = it.n_turns
            await it.apply(40 * stretch + 1, *[KeepReference()] * 40)
            assert it.n_turns > n_before
        await it.until_turns(it.n_turns + 10)


async def test_adapters_are_trained_beside_a_sampler_that_stays_awake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with pair("obeys", tmp_path, monkeypatch) as it:
        it.is_greedy = True
        it.ask()
        await it.open(LORA)
        await it.apply(1, *[KeepReference()] * 5)
        assert not (tmp_path / "memory.slept").exists()


async def test_an_op_that_comes_while_the_trainer_offloads_waits_for_the_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class OrderMore(RankProcesses):
        async def send(self, frame: bytes) -> None:
            await super().send(frame)
            if isinstance(unpack_order(frame), Offload):
                it.order(1, KeepReference())

    async with pair("obeys", tmp_path, monkeypatch, ranks=OrderMore) as it:
        it.time_share.limits = TimeShareLimits(keep_s=0.05, hold_s=1000.0, linger_s=0.02)
        await it.open()
        it.ask()
        await it.until(lambda: 1 in it.answers)
        await it.until_turns(2)


async def test_a_trainer_that_dies_on_the_gpu_leaves_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with pair("obeys", tmp_path, monkeypatch) as it:
        await it.open()
        it.order(1, SaveState(name="die"))
        await it.until(lambda: it.n_deaths > 0)
        it.ask()
        await it.until_turns(2)
        await it.open()
        await it.apply(1, KeepReference())


@pytest.mark.parametrize("how", ["dies asleep", "never sleeps", "never wakes"])
async def test_a_sampler_that_sleeps_badly_is_replaced_and_comes_back_awake(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with pair(how, tmp_path, monkeypatch, sampler_hang_s=1.5) as it:
        await it.open()
        it.ask(3)
        await it.apply(1, KeepReference())
        await it.until_turns(4)
        await it.apply(2, KeepReference())
        it.ask()
        await it.until_turns(5)
