"""All coordinators of this gateway: one for each run that it holds the lease of.

Invariants: a run has at most one coordinator here, and acts only while this gateway holds its lease
(`run_leases`); a coordinator's failure ends only its own run; a broker or store that is away ends none; a
run that only a newer gateway can read is left to one.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from functools import partial

from pydantic import ValidationError
from sqlmodel import Session

from warren_broker.errors import BrokerClosed, BrokerError
from warren_broker.inbox import hear
from warren_broker.port import Broker
from warren_broker.run_logs.sending import sending_run_logs
from warren_broker.topology import RUN_CHANGES, results
from warren_gateway.advice import SEPARATE_WORKERS, Advice
from warren_gateway.coordinator import records, run_leases
from warren_gateway.coordinator.replaying import files
from warren_gateway.coordinator.retrying import RETRY_S, find
from warren_gateway.coordinator.rollouts import fair_shares
from warren_gateway.coordinator.rollouts.opening_rows import with_rows
from warren_gateway.coordinator.run_coordinator import RunCoordinator
from warren_gateway.coordinator.run_leases import LOOK_AGAIN_S, RENEWALS, LeaseLost, LimitsChanged
from warren_gateway.coordinator.state.client import Arrived
from warren_gateway.coordinator.state.client_change import Answered
from warren_gateway.coordinator.state.rows import OpenRows, no_rows
from warren_gateway.defaults import LEASE_S
from warren_gateway.registry import Registry
from warren_gateway.store.outbox import Relay
from warren_gateway.store.store import Store, StoreUnavailable
from warren_gateway.usage.limits import DEFAULT_LIMITS, OwnerLimits
from warren_schemas.control import RunChanged
from warren_schemas.events import LogComponent
from warren_schemas.ids import RunId, new_id
from warren_schemas.text.explain import explain

LAPSED_S = 0.02
"""A lease that is looked at so long after its end has run out, by any rounding."""
LEAVE_S = 2.0
"""How long, when the gateway stops, giving its leases back may take."""

log = logging.getLogger(__name__)


AWAY = (BrokerError, StoreUnavailable)


class _Holding:
    """A run that this gateway drives."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.coordinator: RunCoordinator | None = None
        self.task: asyncio.Task[None] | None = None


class Coordinators:
    def __init__(
        self,
        store: Store,
        broker: Broker,
        registry: Registry,
        relay: Relay,
        *,
        driving: Callable[[RunId], None],
        limits: OwnerLimits = DEFAULT_LIMITS,
        reschedule: Callable[[], None] = lambda: None,
        answered: Answered = lambda _model, _requests: None,
        advice: Advice = SEPARATE_WORKERS,
        lease_s: float = LEASE_S,
        open_rows: OpenRows = no_rows,
        open_archive: files.OpenArchive = files.no_archive,
    ) -> None:
        """`driving` is told of every run that this gateway takes up, for `lease_s` at a time; `reschedule`
        is called when a job has changed; `open_rows` opens the data sets of a config, `open_archive` what was
        archived of a run; `answered` is called when requests of a client's model have their outcomes."""
        self._open_rows = open_rows
        self._open_archive = open_archive
        self._answered = answered
        self._reschedule = reschedule
        self._lease_s = lease_s
        self._advice = advice
        self._limits = limits
        self._driving = driving
        self._store = store
        self._broker = broker
        self._registry = registry
        self._relay = relay
        self._gateway = store.gateway
        self._shares = fair_shares.Shares(registry)
        self._holdings: dict[RunId, _Holding] = {}
        self._unreadable: set[RunId] = set()
        self._look = asyncio.Event()

    def notify(self, run_id: RunId) -> None:
        """The run was submitted, or its row has changed."""
        holding = self._holdings.get(run_id)
        if holding is None:
            self._look.set()
        elif holding.coordinator is not None:
            holding.coordinator.notify()

    def notify_of_request(self, run_id: RunId, arrived: Arrived | None) -> None:
        """Its client has asked for something at this gateway: for what `arrived` says, or for what the store knows."""
        holding = self._holdings.get(run_id)
        if holding is not None and holding.coordinator is not None:
            holding.coordinator.notify_of_request(arrived)

    async def hear(self) -> None:
        """Hear of what owners want of their runs at any gateway, until cancelled."""

        def tell(changes: Sequence[RunChanged]) -> None:
            for change in changes:
                holding = self._holdings.get(change.changed_run)
                if holding is not None and holding.coordinator is not None:
                    holding.coordinator.notify()

        await self._broker.declare(RUN_CHANGES)
        await hear(self._broker, RUN_CHANGES, RunChanged, tell)

    async def run(self) -> None:
        """Take up what nobody drives, now and whenever it comes; never returns."""
        is_alone = self._store.is_private
        logs = sending_run_logs(self._broker, LogComponent.COORDINATOR, self._gateway)
        try:
            async with logs, asyncio.TaskGroup() as tasks:
                while True:
                    due_s = renew_s = self._lease_s / RENEWALS
                    try:
                        await self._renew()
                        await self._look_at_wants()
                        lapse_s = await self._claim(tasks, is_alone=is_alone)
                        due_s = renew_s if lapse_s is None else lapse_s + LAPSED_S
                        is_alone = False
                    except StoreUnavailable as error:
                        log.warning("leases of runs wait for the store: %s", error)
                    await self._until_due(min(renew_s, max(LOOK_AGAIN_S, due_s)))
        finally:
            await self._let_go()

    async def _until_due(self, due_s: float) -> None:
        try:
            async with asyncio.timeout(due_s):
                await self._look.wait()
        except TimeoutError:
            pass
        self._look.clear()

    async def _renew(self) -> None:
        held = {run: holding.epoch for run, holding in self._holdings.items()}
        if not held:
            return
        renewed = await self._store.transact(
            lambda session: run_leases.renew(session, self._gateway, held, lease_s=self._lease_s)
        )
        for run, epoch in held.items():
            lease = renewed.get(run)
            holding = self._holdings.get(run)
            if holding is None or holding.task is None:
                continue
            if lease is None or lease.epoch != epoch:
                log.warning("%s: another gateway has taken over", run)
                holding.task.cancel()
            elif holding.coordinator is not None:
                holding.coordinator.notice_requests(lease)

    async def _look_at_wants(self) -> None:
        """What the runs of all gateways want, for their shares."""
        known = self._shares.seen
        self._shares.seen = await self._store.read(
            lambda session: fair_shares.look(session, known, self._limits)
        )

    async def _claim(self, tasks: asyncio.TaskGroup, *, is_alone: bool) -> float | None:
        """Take up what is free; in how many seconds a lease of another gateway may run out."""

        but = frozenset(self._unreadable)

        def work(session: Session) -> tuple[dict[RunId, int], float | None]:
            claimed = run_leases.claim(
                session, self._gateway, lease_s=self._lease_s, is_alone=is_alone, but=but
            )
            return claimed, run_leases.until_next_lapse_s(session, self._gateway)

        claimed, lapse_s = await self._store.transact(work)
        if claimed:
            self._relay.notify()  # who held them before may have died before sending
        for run, epoch in claimed.items():
            self._driving(run)
            if (before := self._holdings.get(run)) is not None and before.task is not None:
                before.task.cancel()
            holding = self._holdings[run] = _Holding(epoch)
            holding.task = tasks.create_task(
                self._supervise(run, holding), name=f"coordinator {run}"
            )
        return lapse_s

    async def _supervise(self, run: RunId, holding: _Holding) -> None:
        try:
            is_settled = await self._drive(run, holding)
            while not is_settled:
                await asyncio.sleep(RETRY_S)
                is_settled = await self._drive(run, holding)
        finally:
            if self._holdings.get(run) is holding:
                del self._holdings[run]
            if holding.coordinator is not None:
                holding.coordinator.stop_declaring_queues()

    async def _drive(self, run: RunId, holding: _Holding) -> bool:
        """One coordinator's life; False if it should be followed by another."""
        try:
            state = await self._store.read(lambda session: records.load(session, run, time.time()))
            if state.epoch != holding.epoch:
                raise LeaseLost(f"{run}: epoch {holding.epoch} is over")
            state.observed.advice = self._advice
            coordinator = holding.coordinator = RunCoordinator(
                state,
                self._store,
                self._broker,
                self._registry,
                self._relay,
                self._shares,
                reschedule=self._reschedule,
                answered=self._answered,
                open_archive=self._open_archive,
            )
            coordinator.notify()  # of what has changed since the row was read
            if not await with_rows(state, self._open_rows, coordinator.stand_still):
                return False
            log.info("%s drives %s (epoch %d)", self._gateway, run, holding.epoch)
            await coordinator.run()
            await self._store.transact(
                lambda session: run_leases.settle(session, run, holding.epoch)
            )
        except Exception as error:  # noqa: BLE001 - sorted out and logged there
            return await self._is_settled(run, holding, error)
        return True

    async def _is_settled(self, run: RunId, holding: _Holding, error: Exception) -> bool:
        """What a coordinator's failure means; False if it should be tried again."""
        if find(error, LeaseLost):
            log.warning("%s: another gateway has taken over", run)
            await self._tidy(run)
            return True
        if find(error, BrokerClosed):
            log.warning("%s rests: this gateway has closed its connection to the broker", run)
            return True
        if find(error, LimitsChanged):
            log.info("%s begins again from the store, with the limits that its owner has set", run)
            return False
        if (reason := next(filter(None, (find(error, kind) for kind in AWAY)), None)) is not None:
            log.warning("%s begins again from the store: %s", run, reason)
            return False
        if holding.coordinator is None and isinstance(error, ValidationError):
            self._unreadable.add(run)  # our lease runs out, and we take no other
            log.error(
                "%s is left to a gateway that can read it: %s", run, "; ".join(explain(error))
            )
            return True
        error_id = new_id("err")
        log.error("%s: the coordinator of %s failed", error_id, run, exc_info=error)
        if holding.coordinator is None:
            return False
        try:
            await holding.coordinator.fail(
                f"internal error {error_id}; the gateway's log has the details"
            )
        except LeaseLost:
            return True
        except Exception as failure:
            log.error("%s: %s can't be ended as failed", error_id, run, exc_info=failure)
        return False  # the next coordinator finds the run over, and cleans up

    async def _tidy(self, run: RunId) -> None:
        """Whoever has ended the run has deleted its queues, perhaps while we were cut off: our consumer makes its own anew
        as it comes back."""
        try:
            model = await self._store.read(partial(records.model_of_ended, run))
            if model is not None:
                await self._broker.delete(results(model))
        except AWAY as error:
            log.warning("%s: a queue of it may be left at the broker: %s", run, error)

    async def _let_go(self) -> None:
        """Another gateway need not wait for our leases to run out."""
        try:
            async with asyncio.timeout(LEAVE_S):
                await self._store.transact(
                    lambda session: run_leases.let_go(session, self._gateway)
                )
        except (StoreUnavailable, TimeoutError) as error:
            log.warning("the leases of runs run out by themselves: %s", error)
