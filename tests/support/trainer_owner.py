"""The other side of a trainer, for tests: grants leases, sends ops, gathers what is answered."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager

from tests.support.forked_models import spawn_ranks
from tests.support.patience import PATIENCE_S, STOP_S
from tests.support.trainer import MODEL, done

from warren_broker.batch_publisher import BatchPublisher
from warren_broker.inbox import listen, receive
from warren_broker.port import Broker
from warren_broker.topology import POLICIES, WORKERS, results, train, trainer
from warren_gpu_worker.settings import GpuWorkerSettings
from warren_gpu_worker.trainer.supervisor.model_lease import OP_GAP_S
from warren_gpu_worker.trainer.supervisor.rank_processes import SpawnRanks
from warren_gpu_worker.trainer.supervisor.service import serve_trainer
from warren_schemas.control import Heartbeat, HeldModel, PolicyPublished
from warren_schemas.envelope import Envelope
from warren_schemas.ids import MessageId, ModelId, WorkerId
from warren_schemas.training import (
    CloseModel,
    ModelSpec,
    Op,
    OpBody,
    OpenModel,
    OpOutcome,
    OpResult,
)

WORKER = WorkerId("trainer_test")


class Owner:
    """Hears everything; `until` waits for what a test needs to see."""

    def __init__(self, broker: Broker, model: ModelId = MODEL, worker: WorkerId = WORKER) -> None:
        self.broker = broker
        self.model = model
        self.worker = worker
        self.batch_publisher = BatchPublisher(broker)
        self.heartbeats: list[Heartbeat] = []
        self.policies: list[PolicyPublished] = []
        self.results: list[OpResult] = []
        self._heard = asyncio.Condition()

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S), self._heard:
            await self._heard.wait_for(holds)

    async def grant(
        self, spec: ModelSpec, epoch: int, *, next_op: int = 1, checkpoint_url: str | None = None
    ) -> None:
        await self.batch_publisher.send(
            trainer(self.worker),
            OpenModel(
                envelope=Envelope(),
                model=self.model,
                epoch=epoch,
                spec=spec,
                next_op=next_op,
                checkpoint_url=checkpoint_url,
            ),
        )

    async def open(
        self, spec: ModelSpec, epoch: int, *, next_op: int = 1, checkpoint_url: str | None = None
    ) -> None:
        """Return when it is open and a heartbeat has listed it: the two come by ways of their own."""
        await self.grant(spec, epoch, next_op=next_op, checkpoint_url=checkpoint_url)
        done(await self.outcome(epoch, 0))
        held = HeldModel(model=self.model, epoch=epoch)
        await self.until(lambda: held in (self.held() or ()))

    async def close(self, epoch: int) -> None:
        await self.batch_publisher.send(
            trainer(self.worker), CloseModel(envelope=Envelope(), model=self.model, epoch=epoch)
        )

    async def send(self, epoch: int, ops: Iterable[tuple[int, OpBody]]) -> None:
        items = [
            Op(
                envelope=Envelope(id=MessageId(f"{self.model}-{number}")),
                model=self.model,
                epoch=epoch,
                number=number,
                body=body,
            )
            for number, body in ops
        ]
        await self.broker.declare(train(self.model, epoch))
        await self.batch_publisher.send(train(self.model, epoch), *items)

    def outcomes(self, epoch: int) -> dict[int, OpOutcome]:
        return {r.number: r.outcome for r in self.results if r.epoch == epoch}

    async def outcome(self, epoch: int, number: int) -> OpOutcome:
        await self.until(lambda: number in self.outcomes(epoch))
        return self.outcomes(epoch)[number]

    async def apply(self, epoch: int, ops: Sequence[OpBody], *, first: int = 1) -> list[OpOutcome]:
        """Send the ops and wait for all answers."""
        await self.send(epoch, enumerate(ops, first))
        numbers = range(first, first + len(ops))
        return [await self.outcome(epoch, number) for number in numbers]

    def held(self) -> tuple[HeldModel, ...] | None:
        """What the last heartbeat lists."""
        return self.heartbeats[-1].models if self.heartbeats else None

    async def until_held(self, *epochs: int) -> None:
        expected = tuple(HeldModel(model=self.model, epoch=epoch) for epoch in epochs)
        await self.until(lambda: self.held() == expected)

    async def note(self, items: list[Heartbeat] | list[PolicyPublished] | list[OpResult]) -> None:
        async with self._heard:
            for item in items:
                match item:
                    case Heartbeat() if item.worker != self.worker:
                        pass
                    case Heartbeat():
                        self.heartbeats.append(item)
                    case PolicyPublished():
                        self.policies.append(item)
                    case OpResult():
                        self.results.append(item)
            self._heard.notify_all()


@asynccontextmanager
async def owner_of(
    broker: Broker, model: ModelId = MODEL, worker: WorkerId = WORKER
) -> AsyncGenerator[Owner]:
    """An owner that listens while the context lasts."""
    owner = Owner(broker, model, worker)
    async with (
        listen(broker, WORKERS, Heartbeat) as beats,
        listen(broker, POLICIES, PolicyPublished) as policies,
        receive(broker, results(model), OpResult, prefetch=64) as answers,
        asyncio.TaskGroup() as tasks,
    ):

        async def hear_beats() -> None:
            async for claims in beats:
                await owner.note([claim.item for claim in claims])
                for claim in claims:
                    claim.done()

        async def hear_policies() -> None:
            async for claims in policies:
                await owner.note([claim.item for claim in claims])
                for claim in claims:
                    claim.done()

        async def hear_answers() -> None:
            async for claims in answers:
                await owner.note([claim.item for claim in claims])
                for claim in claims:
                    claim.done()

        hearing = [tasks.create_task(hear()) for hear in (hear_beats, hear_policies, hear_answers)]
        yield owner
        for task in hearing:
            task.cancel()


@asynccontextmanager
async def serving(
    broker: Broker,
    settings: GpuWorkerSettings,
    worker: WorkerId = WORKER,
    *,
    spawn_ranks: SpawnRanks = spawn_ranks,
    op_gap_s: float = OP_GAP_S,
) -> AsyncGenerator[None]:
    """A trainer on this broker, cancelled at the end; it must leave soon after."""
    trainer = serve_trainer(
        broker, settings, worker=worker, spawn_ranks=spawn_ranks, op_gap_s=op_gap_s
    )
    task = asyncio.create_task(trainer)
    try:
        yield
    finally:
        task.cancel()
        async with asyncio.timeout(STOP_S):
            await asyncio.wait([task])
        assert task.cancelled(), task
