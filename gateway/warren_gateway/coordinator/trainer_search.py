"""How a run comes to a trainer: its job is sent once it is admitted, and whoever takes it is granted the lease.

Invariant: each of the two steps is committed, with its messages, before the next one is decided.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from sqlmodel import Session, col, select

from warren_broker.topology import train
from warren_gateway.coordinator import records
from warren_gateway.coordinator.lease import busy, job, trainer_lease
from warren_gateway.coordinator.retrying import Retrying
from warren_gateway.coordinator.state.coordinator import CoordinatorState
from warren_gateway.coordinator.state.observed import TrainedRun
from warren_gateway.registry import Registry
from warren_gateway.store.outbox import Relay
from warren_gateway.store.tables import JobRow
from warren_schemas.control import Heartbeat, HeldModel, WorkerRole
from warren_schemas.ids import ModelId, WorkerId

LOOK_S = 3.0
"""Between two looks while the trainers say the same, for what those that have them wait for themselves."""

_Standing = tuple[tuple[WorkerId, int, tuple[HeldModel, ...]], ...]

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
        self._looked_s = -LOOK_S
        self._seen: _Standing = ()
        """What the trainers said at the last look."""

    async def go_on(self) -> None:
        """The next step, where one is due; called while a trainer is wanted and none has the lease."""
        state = self._state
        if trainer_lease.is_hopeless(state.lease, state.learning.ops.answered):
            return
        if (worker := state.lease.taken_by) is not None:
            return await self._grant(worker)
        if state.lease.is_job_sent or state.is_over or state.observed.is_cancel_requested:
            return
        if not state.lease.is_admitted:
            return await self._look_who_trains()
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

    async def _look_who_trains(self) -> None:
        """Whoever waits wants to know for whom, and what that one waits for: by what the trainers say by now."""
        base = self._state.spec.base_model
        is_due = self._state.now_s - self._looked_s >= LOOK_S
        while is_due or _standing(self._able()) != self._seen:
            is_due, able = False, self._able()
            self._looked_s, self._seen = self._state.now_s, _standing(able)
            look = partial(_holders, base, busy.holding(base, able))
            self._state.observed.trained_runs = await self._retrying.read(look)

    def _able(self) -> Sequence[Heartbeat]:
        base, trainers = self._state.spec.base_model, self._registry.alive(WorkerRole.TRAINER)
        return trainer_lease.able_trainers(base, self._state.config.model.gpus, trainers)


def _standing(trainers: Sequence[Heartbeat]) -> _Standing:
    return tuple((beat.worker, beat.in_flight, beat.models) for beat in trainers)


def _holders(base: str, held: frozenset[ModelId], session: Session) -> dict[ModelId, TrainedRun]:
    """Also those that have a place, for which a trainer may keep room before it holds their models."""
    has_place = col(JobRow.state).in_(["admitted", "taken"]) & (col(JobRow.base_model) == base)
    placed = frozenset(map(ModelId, session.exec(select(JobRow.model_id).where(has_place))))
    runs = records.runs_of(session, held | placed)
    return {model: busy.placed(run) if model in placed else run for model, run in runs.items()}
