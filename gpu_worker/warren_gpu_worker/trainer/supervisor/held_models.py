"""The models that this worker holds, the epochs that it has had of them, and what fits beside them.

Invariants:
- One lease per model; an epoch that was held here or closed never comes back, however late its messages
  arrive.
- A full-parameter model has the worker to itself: while one is held nothing else fits, and the other way
  round.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from warren_broker.run_logs.run_logger import RunLogger
from warren_gpu_worker.trainer.supervisor.model_lease import Lease
from warren_schemas.control import HeldModel
from warren_schemas.ids import ModelId

run_log = RunLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Holding:
    lease: Lease
    task: "asyncio.Task[None]"


class HeldModels:
    def __init__(self, max_models: int) -> None:
        """`max_models`: how many adapters fit side by side."""
        self._max_models = max_models
        self._holdings: dict[ModelId, _Holding] = {}
        self._newest: dict[ModelId, int] = {}

    def held(self) -> tuple[HeldModel, ...]:
        return tuple(holding.lease.held for holding in self._holdings.values())

    def lease(self, model: ModelId) -> Lease | None:
        """The one in force."""
        holding = self._holdings.get(model)
        return None if holding is None else holding.lease

    def newest_epoch(self, model: ModelId) -> int:
        """The highest that was held here or closed; 0 if there was none."""
        return self._newest.get(model, 0)

    def note_epoch(self, model: ModelId, epoch: int) -> None:
        """It was held here, refused or closed."""
        self._newest[model] = max(epoch, self.newest_epoch(model))

    def capacity(self, reserved: Sequence[bool]) -> int:
        """How many models of the kind that is held fit.

        `reserved`: of each job that room is kept for, whether it takes the whole worker.
        """
        held = (holding.lease.is_full for holding in self._holdings.values())
        return 1 if any((*held, *reserved)) else self._max_models

    def fits(self, model: ModelId | None, *, is_whole: bool, reserved: Sequence[bool]) -> bool:
        """Whether a model, which needs the whole worker or not, has room beside all others; `model` itself isn't
        counted."""
        others = [kept.lease.is_full for name, kept in self._holdings.items() if name != model]
        others += reserved
        if is_whole or any(others):
            return not others
        return len(others) < self._max_models

    def add(self, lease: Lease, task: "asyncio.Task[None]") -> None:
        """`task` is what keeps it, and ends with it."""
        self.note_epoch(lease.held.model, lease.held.epoch)
        self._holdings[lease.held.model] = _Holding(lease, task)

    def discard(self, lease: Lease) -> bool:
        """Whether it was still in force."""
        is_held = self.lease(lease.held.model) is lease
        if is_held:
            del self._holdings[lease.held.model]
        return is_held

    async def release(self, model: ModelId) -> None:
        """End its lease, if there is one; returns when that has ended."""
        holding = self._holdings.get(model)
        if holding is None:
            return
        holding.task.cancel()
        await asyncio.wait([holding.task])
        run_log.info(holding.lease.of_run, f"let go of {model}, epoch {holding.lease.held.epoch}")

    def release_all(self, reason: str = "") -> None:
        """The process that has their weights is gone: their leases end at once."""
        why = f": {reason}" if reason else ""
        for model, holding in self._holdings.items():
            holding.task.cancel()
            run_log.error(holding.lease.of_run, f"the process that trained {model} has ended{why}")
        self._holdings.clear()
