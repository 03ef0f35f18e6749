"""How a run comes to a trainer: its job is sent once it is admitted, and whoever takes it is granted the lease.

Invariant: each of the two steps is committed, with its messages, before the next one is decided.
"""

import logging
from collections.abc import Awaitable, Callable

from warren_broker.topology import train
from warren_gateway.coordinator import busy, job, records, trainer_lease
from warren_gateway.coordinator.retrying import Retrying
from warren_gateway.coordinator.state.coordinator import CoordinatorState
from warren_gateway.registry import Registry
from warren_gateway.store.outbox import Relay
from warren_schemas.control import WorkerRole
from warren_schemas.ids import ModelId, WorkerId

log = logging.getLogger(__name__)


class TrainerSearch:
    def __init__(
        self,
        state: CoordinatorState,
        registry: Registry,
        retrying: Retrying,
        relay: Relay,
        *,
        commit: Callable[[], Awaitable[None]],
    ) -> None:
        """`commit` saves the state's change."""
        self._state = state
        self._registry = registry
        self._retrying = retrying
        self._relay = relay
        self._commit = commit

    async def go_on(self) -> None:
        """The next step, where one is due; called while a trainer is wanted and none has the lease."""
        state = self._state
        if trainer_lease.is_hopeless(state.lease, state.learning.answered_op):
            return
        if (worker := state.lease.taken_by) is not None:
            return await self._grant(worker)
        if state.lease.is_job_sent or state.is_over or state.observed.is_cancel_requested:
            return
        if not state.lease.is_admitted:
            base, trainers = state.spec.base_model, self._registry.alive(WorkerRole.TRAINER)
            able = trainer_lease.able_trainers(base, state.config.model.gpus, trainers)
            return await self._look_who_trains(busy.holding(base, able))
        await self._send_job()

    async def _send_job(self) -> None:
        state = self._state
        await self._retrying.declare(
            train(state.model, state.lease.epoch + 1),
            job.queue(state),
        )
        job.send(state)
        await self._commit()

    async def _grant(self, worker: WorkerId) -> None:
        state = self._state
        trainer_lease.grant(state, worker)
        change = state.take_change()
        await self._retrying.transact(lambda session: records.save_grant(session, state, change))
        self._relay.notify()
        log.info("%s: %s trains %s (epoch %d)", state.run, worker, state.model, state.lease.epoch)

    async def _look_who_trains(self, models: frozenset[ModelId]) -> None:
        """Whoever waits wants to know for whom, and what that one waits for."""
        known = await self._retrying.transact(lambda session: records.runs_of(session, models))
        self._state.observed.trained_runs = known
