"""A training process of several ranks, called like an engine."""

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager

from tests.support.patience import PATIENCE_S

from warren_gpu_worker.fitting import DeviceMemory
from warren_gpu_worker.settings import GpuWorkerSettings
from warren_gpu_worker.trainer.messages import Answer, Apply, Open, Order
from warren_gpu_worker.trainer.supervisor.child_process import TrainerProcess
from warren_schemas.ids import ModelId
from warren_schemas.training import ModelSpec, OpBody, OpOutcome


class RankedTrainer:
    """Its event loop runs while somebody waits for an answer."""

    def __init__(self, settings: GpuWorkerSettings, runner: asyncio.Runner) -> None:
        self.n_deaths = self.n_waits_for_disk = 0
        self.free_disk: Callable[[], None] = lambda: None
        self._runner = runner
        self._answers: asyncio.Queue[Answer] = asyncio.Queue()
        self.process = TrainerProcess("ranks", settings, self)

    def on_ready(self, memory: DeviceMemory | None) -> None:
        pass

    def on_answer(self, answer: Answer) -> None:
        self._answers.put_nowait(answer)

    def on_disk_full(self, model: ModelId) -> None:
        self.n_waits_for_disk += 1
        self.free_disk()

    def on_death(self, reason: str) -> None:
        self.n_deaths += 1

    def open(
        self, model_id: ModelId, spec: ModelSpec, *, checkpoint_url: str | None, next_op: int
    ) -> OpOutcome:
        return self._answer(Open(model_id, 1, spec, checkpoint_url, next_op))

    def apply(self, model_id: ModelId, number: int, body: OpBody) -> OpOutcome:
        return self._answer(Apply(model_id, 1, ((number, body),)))

    def _answer(self, order: Order) -> OpOutcome:
        async def answered() -> Answer:
            async with asyncio.timeout(PATIENCE_S):
                await self.process.until_ready()
                self.process.order(order)
                return await self._answers.get()

        answer = self._runner.run(answered())
        assert answer.model == order.model
        assert self.n_deaths == 0
        return answer.outcome


@contextmanager
def ranked_trainer(settings: GpuWorkerSettings) -> Generator[RankedTrainer]:
    with asyncio.Runner() as runner:
        trainer = RankedTrainer(settings, runner)

        async def start() -> "asyncio.Task[None]":
            return asyncio.create_task(trainer.process.run(), name="ranks")

        async def stop(task: "asyncio.Task[None]") -> None:
            task.cancel()
            await asyncio.wait([task])

        task = runner.run(start())
        try:
            yield trainer
        finally:
            runner.run(stop(task))
