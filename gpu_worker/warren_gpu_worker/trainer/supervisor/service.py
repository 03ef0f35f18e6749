"""The trainer's supervisor: announces the worker, opens and closes models, outlives its child.

Invariants:
- The heartbeat lists exactly the leases that are held, and says so at once when that changes; it
  offers base models only while there is a queue for grants, or the first one would find nobody.
- Jobs are taken from queues, and only while there is room (see `job_queues`); what was taken is opened once
  its lease is granted.
- A newer epoch of a model ends the older one. A grant of an epoch that was here, or of a model that doesn't
  fit (see `held_models`), is refused, so that its coordinator asks elsewhere.
- The child's death ends all leases at once; their coordinators grant new ones, here or elsewhere, from a
  checkpoint or from the first op.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from warren_broker.batch_publisher import BatchPublisher
from warren_broker.errors import BrokerError, BrokerUnavailable
from warren_broker.inbox import Claim, receive
from warren_broker.port import Broker
from warren_broker.run_logs.run_logger import RunLogger
from warren_broker.run_logs.sending import sending_run_logs
from warren_broker.topology import trainer
from warren_broker.worker.draining import Draining
from warren_broker.worker.heartbeat import announce, beat
from warren_gpu_worker.fitting import DeviceMemory
from warren_gpu_worker.reloading import Reloading
from warren_gpu_worker.settings import GpuWorkerSettings
from warren_gpu_worker.time_share import TimeShare
from warren_gpu_worker.trainer.messages import Answer
from warren_gpu_worker.trainer.supervisor.child_process import ProcessListener, TrainerProcess
from warren_gpu_worker.trainer.supervisor.file_cleanup import clean_up_files
from warren_gpu_worker.trainer.supervisor.held_models import HeldModels
from warren_gpu_worker.trainer.supervisor.job_queues import JobQueues
from warren_gpu_worker.trainer.supervisor.model_lease import OP_GAP_S, Lease, WorkerOrder
from warren_gpu_worker.trainer.supervisor.rank_processes import RankProcesses, SpawnRanks
from warren_gpu_worker.trainer.supervisor.refusal import refuse
from warren_gpu_worker.trainer.supervisor.trainer_heartbeat import TrainerStatus, trainer_heartbeat
from warren_schemas.control import Heartbeat
from warren_schemas.events import LogComponent
from warren_schemas.ids import ModelId, WorkerId, new_worker_id
from warren_schemas.training import CloseModel, KeepForJob, LoadBaseModel, OpenModel, is_full

_ORDERS = (OpenModel, CloseModel, KeepForJob, LoadBaseModel)
_PREFETCH = 16
_LEAVING_S = 2.0
_REFUSE_AGAIN_S = 1.0

log = logging.getLogger(__name__)
run_log = RunLogger(__name__)


async def serve_trainer(
    broker: Broker,
    settings: GpuWorkerSettings,
    *,
    worker: WorkerId | None = None,
    time_share: TimeShare | None = None,
    spawn_ranks: SpawnRanks = RankProcesses.spawn,
    op_gap_s: float = OP_GAP_S,
    reloading: Reloading | None = None,
) -> None:
    """Train what gateways grant, until cancelled; then hand everything back within seconds.

    Where the settings say so, full-parameter models have the GPU in turn with samplers (`time_share`).
    A lease ends when an op is missing for `op_gap_s` while later ones are here.

    Raises `BrokerClosed` when the broker is closed underneath.
    """
    worker = worker or new_worker_id("trainer")
    process_for = partial(
        TrainerProcess,
        f"training process of {worker}",
        settings,
        time_share=time_share,
        spawn_ranks=spawn_ranks,
    )
    reloading = reloading or Reloading(settings)
    service = _Trainer(broker, worker, process_for, op_gap_s, reloading)
    try:
        async with sending_run_logs(broker, LogComponent.TRAINER, worker):
            await service.run()
    finally:
        await service.announce_leaving()


class _Trainer:
    def __init__(
        self,
        broker: Broker,
        worker: WorkerId,
        process_for: Callable[[ProcessListener], TrainerProcess],
        op_gap_s: float,
        reloading: Reloading,
    ) -> None:
        self._broker = broker
        self._settings = settings = reloading.settings
        self._worker = worker
        self._batch_publisher = BatchPublisher(broker)
        self._process = process_for(self)
        self._op_gap_s = op_gap_s
        self._tasks = asyncio.TaskGroup()
        self._models = HeldModels(1 if settings.n_ranks > 1 else settings.max_models)
        self._changed = asyncio.Event()
        self._without_disk_space: set[ModelId] = set()
        """Models whose files don't fit on the disk."""
        self._jobs = JobQueues(broker, self._batch_publisher, worker, self)
        self._reloading = reloading
        reloading.on_change = self._note_change
        self._kept_for: ModelId | None = None
        self._takes_orders = False
        self._draining = Draining(worker, self._note_change)
        self._n_done = 0
        self._is_leaving = False

    async def run(self) -> None:
        async with self._tasks as tasks:
            tasks.create_task(self._process.run(), name="training process")
            draining, changed = self._draining, self._changed
            beating = beat(self._broker, self._heartbeat, draining=draining, changed=changed)
            tasks.create_task(beating, name="heartbeat")
            cleaning = clean_up_files(self._broker, self._settings.checkpoint_url)
            tasks.create_task(cleaning, name="file cleanup")
            taking = self._jobs.take(self._settings.base_models, self._settings.n_ranks)
            tasks.create_task(taking, name="jobs")
            try:
                while True:
                    await self._take_orders()
            finally:
                self._is_leaving = True

    async def announce_leaving(self) -> None:
        """Say that it leaves, so that nobody waits for us; a broker that is away won't hear it."""
        try:
            async with asyncio.timeout(_LEAVING_S):
                await self._batch_publisher.close()
                await announce(self._broker, self._heartbeat())
                await self._broker.delete(trainer(self._worker))
        except (BrokerError, TimeoutError) as error:
            log.warning("%s left without a word: %s", self._worker, error)

    def _note_change(self) -> None:
        self._changed.set()
        self._jobs.room_changed()

    def on_reserved(self) -> None:
        self._note_change()

    def on_ready(self, memory: DeviceMemory | None) -> None:
        self._reloading.note_ready(memory)
        self._note_change()

    def on_answer(self, answer: Answer) -> None:
        lease = self._models.lease(answer.model)
        if lease is not None and lease.held.epoch == answer.epoch:
            self._n_done += 1
            if answer.model in self._without_disk_space:
                self._without_disk_space.discard(answer.model)
                self._note_change()
            lease.on_answer(answer)

    def on_disk_full(self, model: ModelId) -> None:
        if model not in self._without_disk_space:
            self._without_disk_space.add(model)
            self._note_change()

    def on_death(self, reason: str) -> None:
        self._reloading.note_death()
        self._models.release_all(reason)
        self._without_disk_space.clear()
        self._note_change()

    def _heartbeat(self) -> Heartbeat:
        models, reserved = self._models.held(), self._jobs.reserved()
        status = TrainerStatus(
            is_open=self._is_open,
            is_ready=self._process.is_ready,
            models=models,
            n_kept=len(reserved),
            capacity=self._models.capacity(reserved),
            n_done=self._n_done,
            without_disk_space=frozenset(self._without_disk_space),
            kept_for=self._kept_for,
            is_leaving=self._is_leaving,
        )
        return trainer_heartbeat(self._worker, self._reloading, self._draining, status)

    @property
    def _is_open(self) -> bool:
        return self._takes_orders and self._process.is_ready

    @property
    def _is_offered(self) -> bool:
        is_staying = not self._draining.is_draining and self._reloading.told is None
        return self._is_open and is_staying

    def has_room(self, model: ModelId | None, *, is_whole: bool) -> bool:
        """Of jobs, none while grants could not reach us or we are drained, and while we are kept for another only
        those that need the whole worker."""
        is_kept = self._kept_for is not None and self._kept_for != model and not is_whole
        return self._is_offered and not is_kept and self._fits(model, is_whole=is_whole)

    def _fits(self, model: ModelId | None, *, is_whole: bool) -> bool:
        return self._models.fits(model, is_whole=is_whole, reserved=self._jobs.reserved(but=model))

    def held_epoch(self, model: ModelId) -> int | None:
        lease = self._models.lease(model)
        return None if lease is None else lease.held.epoch

    def newest_epoch(self, model: ModelId) -> int:
        return self._models.newest_epoch(model)

    async def _take_orders(self) -> None:
        """Until the queue is deleted, which makes a new one."""
        try:
            async with receive(
                self._broker, trainer(self._worker), _ORDERS, prefetch=_PREFETCH
            ) as inbox:
                self._takes_orders = True
                self._note_change()
                async for claims in inbox:
                    for claim in claims:
                        await self._follow(claim)
        finally:
            self._takes_orders = False
            self._jobs.room_changed()

    async def _follow(self, claim: Claim[WorkerOrder]) -> None:
        order = claim.item
        if isinstance(order, KeepForJob):
            self._kept_for = order.model
            self._note_change()
            return claim.done()
        if isinstance(order, LoadBaseModel):
            self._load(order.base_model)
            return claim.done()
        if isinstance(order, CloseModel):
            await self._close(order)
            return claim.done()
        lease, newest = self._models.lease(order.model), self._models.newest_epoch(order.model)
        if lease is not None and lease.held.epoch == order.epoch:
            await lease.open_again(claim)
        elif order.epoch <= newest:
            await self._refuse(claim, order, f"{self._worker} had epoch {newest} of the model")
        else:
            await self._models.release(order.model)
            if self._fits(order.model, is_whole=is_full(order.spec)):
                self._grant(claim, order)
            else:
                await self._refuse(claim, order, f"{self._worker} has no capacity for the model")

    def _load(self, base_model: str) -> None:
        is_idle = self._is_offered and not self._models.held() and not self._jobs.reserved()
        if is_idle and self._reloading.begin(base_model):
            self._note_change()

    async def _close(self, order: CloseModel) -> None:
        lease = self._models.lease(order.model)
        if lease is not None and lease.held.epoch <= order.epoch:
            await self._models.release(order.model)
        self._jobs.release(order.model, order.epoch)
        self._models.note_epoch(order.model, order.epoch)

    def _grant(self, claim: Claim[WorkerOrder], order: OpenModel) -> None:
        publisher, process, op_gap_s = self._batch_publisher, self._process, self._op_gap_s
        lease = Lease(claim, order, self._broker, publisher, process, op_gap_s=op_gap_s)
        task = self._tasks.create_task(self._hold(lease), name=f"lease of {order.model}")
        self._models.add(lease, task)
        self._jobs.release(order.model, order.epoch)
        task.add_done_callback(lambda _: self._ended(lease))
        self._note_change()
        run_log.info(order.envelope.run, f"holding {order.model}, epoch {order.epoch}")

    async def _refuse(self, claim: Claim[WorkerOrder], order: OpenModel, reason: str) -> None:
        try:
            await refuse(self._broker, self._batch_publisher, order, reason)
        except BrokerUnavailable:
            return claim.hand_back(delay_s=_REFUSE_AGAIN_S)
        self._models.note_epoch(order.model, order.epoch)
        claim.done()

    async def _hold(self, lease: Lease) -> None:
        """Let a lease live. Whatever goes wrong in it ends it, and nothing else."""
        try:
            await lease.run()
        except Exception:
            log.exception("the lease of %s ended", lease.held.model)

    def _ended(self, lease: Lease) -> None:
        """Called also when the task was cancelled before it began."""
        if self._models.discard(lease):
            self._note_change()
        if not self._is_leaving:  # then the inbox has handed its claims back already
            lease.end()
