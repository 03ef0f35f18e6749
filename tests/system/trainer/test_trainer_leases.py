"""Which worker holds which model: grants, epochs, refusals, gaps, heartbeats."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
from tests.support.brokers import depth_is
from tests.support.forked_models import spawn_child
from tests.support.observed_broker import ObservedBroker
from tests.support.trainer import (
    BASE,
    FULL,
    LORA,
    MODEL,
    done,
    failed,
    forward_backward,
    optim_step,
    random_batch,
)
from tests.support.trainer_children import kill_child
from tests.support.trainer_owner import WORKER, Owner, owner_of, serving

from warren_broker.memory.hub import MemoryHub
from warren_broker.port import Broker, Consumer
from warren_broker.topology import Home, WorkQueue, results, train, trainer
from warren_gpu_worker.settings import GpuWorkerSettings
from warren_gpu_worker.trainer.supervisor.rank_processes import RankProcesses
from warren_schemas.control import WorkerRole
from warren_schemas.ids import ModelId
from warren_schemas.training import (
    OpFailed,
)


class LateQueue(ObservedBroker):
    """Nobody takes from the worker's queue for grants before `has_queue` is set."""

    def __init__(self, broker: Broker) -> None:
        super().__init__(broker)
        self.has_queue = asyncio.Event()

    @asynccontextmanager
    async def consume(self, queue: WorkQueue | Home, *, prefetch: int) -> AsyncGenerator[Consumer]:
        if queue == trainer(WORKER):
            await self.has_queue.wait()
        async with super().consume(queue, prefetch=prefetch) as consumer:
            yield consumer


async def test_it_offers_nothing_before_it_has_a_queue_for_grants(
    hub: MemoryHub, owner: Owner, settings: GpuWorkerSettings
) -> None:
    broker, is_ready = LateQueue(hub.client("worker")), asyncio.Event()

    class Ranks(RankProcesses):
        async def receive(self) -> bytes:
            frame = await super().receive()
            is_ready.set()  # the first thing that a child says is that it is ready
            return frame

    async with serving(broker, settings, spawn_ranks=partial(Ranks.spawn, spawn_child=spawn_child)):
        await is_ready.wait()
        n_before = len(owner.heartbeats)
        await owner.until(lambda: len(owner.heartbeats) > n_before + 1)
        assert all(beat.offers == () for beat in owner.heartbeats)
        broker.has_queue.set()
        await owner.until(lambda: owner.heartbeats[-1].offers == (BASE,))
        await owner.grant(LORA, epoch=1)
        done(await owner.outcome(1, 0))


async def test_a_newer_epoch_ends_the_older_and_an_ended_one_never_comes_back(
    hub: MemoryHub, owner: Owner, settings: GpuWorkerSettings
) -> None:
    window = [forward_backward(random_batch(1)), optim_step()]
    async with serving(hub.client("worker"), settings):
        await owner.open(LORA, epoch=1)
        await owner.apply(1, window)
        await owner.open(LORA, epoch=3)
        await owner.until_held(3)
        await owner.grant(LORA, epoch=2)
        await owner.send(1, enumerate(window, 3))
        outcomes = await owner.apply(3, window)
        assert done(outcomes[1]).version == 1
        await owner.close(epoch=2)
        await owner.apply(3, window, first=3)
        await owner.close(epoch=3)
        await owner.until_held()
        await owner.grant(LORA, epoch=3)
        await owner.open(LORA, epoch=4)
        await owner.until_held(4)
    told = failed(owner.outcomes(2)[0])  # so that whoever has lost the newer grants hears of it
    assert told == f"{WORKER} had epoch 3 of the model"
    assert owner.outcomes(1).keys() == {0, 1, 2}
    assert await owner.broker.depth(train(MODEL, 1)) == 1


async def test_a_model_that_cannot_be_opened_is_answered_and_let_go(
    hub: MemoryHub,
    owner: Owner,
    settings: GpuWorkerSettings,
    tmp_path: Path,
) -> None:
    async with serving(hub.client("worker"), settings):
        await owner.grant(LORA.model_copy(update={"base_model": "nobody/knows"}), epoch=1)
        assert "no base model nobody/knows" in failed(await owner.outcome(1, 0))
        await owner.until_held()
        await owner.grant(LORA, epoch=2, checkpoint_url=str(tmp_path / "nothing"), next_op=5)
        assert "is not there" in failed(await owner.outcome(2, 0))
        await owner.until_held()
        await owner.open(LORA, epoch=3)


async def test_heartbeats_tell_what_is_offered_and_held(
    hub: MemoryHub, owner: Owner, settings: GpuWorkerSettings
) -> None:
    async with serving(hub.client("worker"), settings):
        await owner.until(lambda: bool(owner.heartbeats))
        assert owner.heartbeats[0].offers == ()  # the child is still starting
        await owner.until(lambda: owner.heartbeats[-1].offers == (BASE,))
        await owner.open(FULL, epoch=1)
        await owner.until_held(1)
        await owner.apply(1, [forward_backward(random_batch(1)), optim_step()])
        kill_child()
        await owner.until_held()
    await owner.until(lambda: owner.heartbeats[-1].is_leaving)
    assert all(beat.role is WorkerRole.TRAINER for beat in owner.heartbeats)
    assert all(beat.worker == WORKER for beat in owner.heartbeats)
    assert await owner.broker.depth(trainer(WORKER)) is None


async def test_a_gap_that_does_not_close_ends_the_lease_with_a_word(
    hub: MemoryHub,
    owner: Owner,
    settings: GpuWorkerSettings,
    caplog: pytest.LogCaptureFixture,
) -> None:
    window = [forward_backward(random_batch(1)), optim_step()]
    async with serving(hub.client("worker"), settings, op_gap_s=0.2):
        await owner.open(LORA, epoch=1)
        await owner.send(1, [(2, optim_step())])
        await owner.until_held()
        assert "op 1 has not come within 0.2 s, although later ones have" in caplog.text
        await owner.open(LORA, epoch=2)
        assert done((await owner.apply(2, window))[1]).version == 1
    assert owner.outcomes(1).keys() == {0}


async def test_a_full_worker_declines_and_says_so(
    hub: MemoryHub, owner: Owner, settings: GpuWorkerSettings
) -> None:
    """A model that is trained in full has the worker to itself, either way round."""
    async with (
        serving(hub.client("worker"), settings),
        owner_of(hub.client("second"), ModelId("model_second")) as second,
    ):
        await owner.open(FULL, epoch=1)
        await second.grant(LORA, epoch=1)
        refusal = await second.outcome(1, 0)
        assert isinstance(refusal, OpFailed)
        assert refusal.elsewhere and "has no capacity for the model" in refusal.reason
        await owner.apply(1, [forward_backward(random_batch(1)), optim_step()])
        await owner.close(epoch=1)
        await owner.until_held()
        await second.open(LORA, epoch=2)
        await owner.grant(FULL, epoch=2)
        assert "has no capacity for the model" in failed(await owner.outcome(2, 0))


async def test_a_grant_that_nobody_made_leaves_no_queue(
    hub: MemoryHub, owner: Owner, settings: GpuWorkerSettings
) -> None:
    """Whoever made it waits for no answer: it is not opened, and what is declined is told to nobody."""
    forger = Owner(hub.client("forger"), ModelId("model_of_nobody"))
    async with serving(hub.client("worker"), settings):
        await owner.until(lambda: bool(owner.heartbeats))
        await forger.grant(LORA, epoch=2)
        await forger.grant(LORA, epoch=1)  # comes late
        await owner.open(LORA, epoch=1)
        await owner.close(epoch=1)
        await owner.open(FULL, epoch=2)
        await forger.grant(LORA, epoch=3)  # finds no capacity
        await owner.apply(2, [forward_backward(random_batch(1)), optim_step()])
        await owner.close(epoch=2)
        await owner.until_held()
        for queue in (results(forger.model), train(forger.model, 2), train(forger.model, 3)):
            assert await owner.broker.depth(queue) is None


async def test_a_lease_that_ends_after_its_run_leaves_no_queue(
    hub: MemoryHub, owner: Owner, settings: GpuWorkerSettings
) -> None:
    """Its consumer was cut off while the run's queues were deleted, and has made its own anew."""
    async with serving(hub.client("worker"), settings):
        await owner.open(LORA, epoch=1)
        await depth_is(owner.broker, train(MODEL, 1), 0)
        await owner.broker.delete(results(MODEL))
        await owner.close(epoch=1)
        await owner.until_held()
        assert await owner.broker.depth(train(MODEL, 1)) is None
