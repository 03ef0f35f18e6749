"""Which sampler takes a turn: the one that has its transcript cached, or else any."""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.support.episodes import (
    EnvironmentSide,
    environment_side,
    first_turn,
    next_turn,
    policy,
    user,
)
from tests.support.patience import PATIENCE_S
from tests.support.sampler_stage import one_token, settings_of

from warren_broker.memory import MemoryHub, open_hub
from warren_gpu_worker.sampler.messages import TurnRequest
from warren_gpu_worker.sampler.supervisor.child_process import SamplerProcess
from warren_gpu_worker.sampler.supervisor.service import serve_sampler
from warren_schemas.episode import Generate, Step

BASE = "warren/tiny"
MAX_BATCH = 2
N_IN_HAND = 2 * MAX_BATCH
"""What a sampler takes of the turns that return to it."""


class HandMade(SamplerProcess):
    """Its child is the test: turns end when that says so."""

    made: "asyncio.Queue[HandMade]"
    at_work = True

    @property
    def is_at_work(self) -> bool:
        return self.at_work

    def submit_turns(self, requests: Iterable[TurnRequest]) -> None:
        self.waiting += requests
        self.stirred.set()

    async def run(self) -> None:
        self.caches_prefixes = True
        self.waiting: list[TurnRequest] = []
        self.stirred = asyncio.Event()
        self._loaded.set()
        self._childless.clear()
        self.made.put_nowait(self)
        await asyncio.Event().wait()

    def lose_child(self) -> None:
        self.at_work = False
        self._childless.set()

    def get_child(self) -> None:
        self.at_work = True
        self._childless.clear()

    def give_all_back(self) -> None:
        ids = [request.id for request in self.waiting]
        self.waiting.clear()
        self._give_back(ids)

    async def until_waiting(self, n: int) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while len(self.waiting) < n:
                self.stirred.clear()
                await self.stirred.wait()

    def finish(self, n: int) -> None:
        done, self.waiting = self.waiting[:n], self.waiting[n:]
        self._answered([one_token(request) for request in done])


@dataclass(frozen=True)
class Stage:
    hub: MemoryHub
    side: EnvironmentSide
    folder: Path
    process_type: type[HandMade]

    @asynccontextmanager
    async def sampler(self) -> AsyncGenerator[HandMade]:
        """Another sampler of the same queue."""
        broker = self.hub.client("sampler")
        settings = settings_of({BASE: str(self.folder)}, self.folder)
        settings = settings.model_copy(update={"max_batch": MAX_BATCH})
        serving = asyncio.create_task(
            serve_sampler(broker, settings, make_process=self.process_type)
        )
        try:
            yield await asyncio.wait_for(self.process_type.made.get(), PATIENCE_S)
        finally:
            serving.cancel()
            await asyncio.wait([serving])
            await broker.close()

    async def first_steps(self, process: HandMade, n: int) -> list[Step]:
        """Of episodes that begin at this sampler, the only one there is."""
        steps: list[Step] = []
        for _ in range(n):
            await self.side.send([first_turn(policy())])
            await process.until_waiting(1)
            process.finish(1)
            steps += await self.side.steps(1)
        return steps

    async def fill_shared(self, process: HandMade) -> None:
        """As many messages as it takes at once of what is for all."""
        n_before = len(process.waiting)
        for _ in range(MAX_BATCH):
            await self.side.send([first_turn(policy())])
        await process.until_waiting(n_before + MAX_BATCH)

    async def go_on(self, steps: Sequence[Step]) -> None:
        for step in steps:
            assert step.return_to is not None
            await self.side.send_back([_follow(step)], step.return_to)


def _follow(step: Step) -> Generate:
    return next_turn(step, user("!"))


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncGenerator[Stage]:
    class Ours(HandMade):
        made = asyncio.Queue[HandMade]()

    async with open_hub(tmp_path / "broker") as hub, environment_side(hub) as side:
        yield Stage(hub, side, tmp_path, Ours)


async def test_turns_go_back_to_the_sampler_that_took_those_before(stage: Stage) -> None:
    async with stage.sampler() as first:
        steps = await stage.first_steps(first, N_IN_HAND)
        async with stage.sampler() as second:
            await stage.go_on(steps)
            await first.until_waiting(N_IN_HAND)
            assert not second.waiting


async def test_what_a_full_sampler_does_not_take_another_one_takes(stage: Stage) -> None:
    async with stage.sampler() as first:
        steps = await stage.first_steps(first, N_IN_HAND + MAX_BATCH)
        await stage.go_on(steps[:N_IN_HAND])
        await first.until_waiting(N_IN_HAND)
        await stage.fill_shared(first)
        n_full = N_IN_HAND + MAX_BATCH
        async with stage.sampler() as second:
            await stage.go_on(steps[N_IN_HAND:])
            await second.until_waiting(MAX_BATCH)
            assert len(first.waiting) == n_full
            second.finish(MAX_BATCH)
            first.finish(n_full)
            told = await stage.side.steps(MAX_BATCH + n_full)
            assert len({step.return_to for step in told}) == 2


async def test_turns_that_return_take_no_capacity_from_others(stage: Stage) -> None:
    async with stage.sampler() as only:
        steps = await stage.first_steps(only, N_IN_HAND)
        await stage.go_on(steps)
        await only.until_waiting(N_IN_HAND)
        await stage.side.send([first_turn(policy())])
        await only.until_waiting(N_IN_HAND + 1)
        only.finish(N_IN_HAND + 1)
        assert len(await stage.side.steps(N_IN_HAND + 1)) == N_IN_HAND + 1


async def test_a_sampler_without_a_child_at_work_passes_on_what_returns(stage: Stage) -> None:
    async with stage.sampler() as first:
        steps = await stage.first_steps(first, 1)
        await stage.fill_shared(first)
        first.at_work = False
        async with stage.sampler() as second:
            await stage.go_on(steps)
            await second.until_waiting(1)


async def test_the_turns_of_a_sampler_that_left_are_taken_by_another(stage: Stage) -> None:
    async with stage.sampler() as first:
        steps = await stage.first_steps(first, 2)
        await stage.go_on(steps)
        await first.until_waiting(2)
    async with stage.sampler() as second:
        await second.until_waiting(2)


async def test_a_sampler_without_a_child_leaves_turns_to_others(stage: Stage) -> None:
    async with stage.sampler() as first:
        steps = await stage.first_steps(first, N_IN_HAND)
        first.lose_child()
        async with stage.sampler() as second:
            await stage.go_on(steps)
            for _ in range(N_IN_HAND // MAX_BATCH):
                await second.until_waiting(MAX_BATCH)
                second.finish(MAX_BATCH)
            assert not first.waiting


async def test_a_full_sampler_that_loses_its_child_keeps_nothing_more_from_others(
    stage: Stage,
) -> None:
    async with stage.sampler() as first:
        await stage.side.send([first_turn(policy()) for _ in range(N_IN_HAND)])
        await first.until_waiting(N_IN_HAND)
        await stage.side.send([first_turn(policy())])
        first.lose_child()
        async with stage.sampler() as second:
            await second.until_waiting(1)
            assert len(first.waiting) == N_IN_HAND


async def test_a_sampler_whose_child_is_back_takes_what_it_left(stage: Stage) -> None:
    async with stage.sampler() as only:
        only.lose_child()
        await stage.side.send([first_turn(policy())])
        only.get_child()
        await only.until_waiting(1)


async def test_turns_that_a_child_will_not_answer_are_taken_by_another(stage: Stage) -> None:
    async with stage.sampler() as first:
        steps = await stage.first_steps(first, 2)
        await stage.go_on(steps)
        await stage.fill_shared(first)
        n_held = 2 + MAX_BATCH
        await first.until_waiting(n_held)
        first.lose_child()
        async with stage.sampler() as second:
            first.give_all_back()
            for _ in range(n_held // MAX_BATCH):
                await second.until_waiting(MAX_BATCH)
                second.finish(MAX_BATCH)
            assert len(await stage.side.steps(n_held)) == n_held
