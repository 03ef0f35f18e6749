"""Models that clients train by the primitives: what every API calls.

Invariants: all of it is the caller's own, or shared with them to be read; what is accepted is in the store before it
is answered, so that no future is lost with a gateway.
"""

import asyncio
import time
from collections.abc import Collection
from functools import partial
from typing import Protocol

from sqlalchemy.exc import IntegrityError
from sqlmodel import Session, col, select

from warren_broker.inbox import hear
from warren_broker.port import Broker
from warren_broker.topology import MODEL_ANSWERS
from warren_gateway.access.caller import Viewer
from warren_gateway.coordinator.state.client import Arrived
from warren_gateway.runs import steering
from warren_gateway.runs.owned import read_by
from warren_gateway.runs.service import KeyReused
from warren_gateway.store.outbox import Relay
from warren_gateway.store.store import Store, StoreUnavailable
from warren_gateway.store.tables import Model, Run
from warren_gateway.trainable import outcomes, saved
from warren_gateway.trainable.asking import Wanted
from warren_gateway.trainable.creating import Created, insert_model, with_key
from warren_gateway.trainable.outcomes import Done, Failed, Outcome, Pending, Places
from warren_gateway.trainable.owned import owned, readable
from warren_gateway.trainable.problems import ModelClosed
from warren_gateway.trainable.recent_ops import RecentOps
from warren_gateway.trainable.submitting import insert_request, touch
from warren_gateway.trainable.viewing import Shown, shown, trainable_view
from warren_gateway.trainable.waiters import Waiters
from warren_gateway.usage.limits import DEFAULT_LIMITS, OwnerLimits
from warren_schemas.control import RequestsAnswered
from warren_schemas.events import RunState
from warren_schemas.http.trainable import (
    CreateModel,
    ModelCheckpoint,
    ModelSnapshot,
    SavedName,
    SavedWeights,
    TrainableView,
)
from warren_schemas.ids import RunId

LONGEST_WAIT_S = 60.0
MARK_S = 5.0
"""How long what was delivered may stay unmarked: no more than that is it kept longer."""
SWEEP_S = 60.0


class Notified(Protocol):
    def notify(self, run: RunId, /) -> None: ...


class Driving(Notified, Protocol):
    def notify_of_request(self, run: RunId, arrived: Arrived | None, /) -> None: ...


class Models:
    def __init__(
        self,
        store: Store,
        broker: Broker,
        relay: Relay,
        waiters: Waiters,
        queue: Notified,
        coordinators: Driving,
        *,
        limits: OwnerLimits = DEFAULT_LIMITS,
        places: Places = lambda _: None,
    ) -> None:
        """`queue` is told of new models, `coordinators` of what is asked of one; `places`: where a model stands in
        the queue for trainers."""
        self._store = store
        self.ops = RecentOps(store)
        self._broker = broker
        self._relay = relay
        self._waiters = waiters
        self._queue = queue
        self._coordinators = coordinators
        self._limits = limits
        self._places = places
        self._delivered: set[str] = set()

    async def create(self, viewer: Viewer, body: CreateModel) -> tuple[TrainableView, bool]:
        """The model, and whether it is new.

        Raises `KeyReused`, `NoSuchSavedWeights`, `InvalidOp`, `OverBudget`, `StoreUnavailable`.
        """
        work = partial(_create, viewer, body, self._limits)
        try:
            created, seen = await self._store.transact(work)
        except IntegrityError:  # the same key, a moment earlier
            created, seen = await self._store.transact(work)
        if not created.is_alike:
            raise KeyReused(created.run.id)
        if created.is_new:
            self._relay.notify()
            self._queue.notify(RunId(created.run.id))
        return self._view(seen), created.is_new

    async def find(self, viewer: Viewer, key: str) -> TrainableView | None:
        """The caller's model that was made with this key. Raises `StoreUnavailable`."""
        found = await self._store.read(partial(_find, viewer, key))
        return None if found is None else self._view(found)

    async def info(self, viewer: Viewer, model: str) -> TrainableView:
        """Raises `NoSuchTrainable`, `StoreUnavailable`."""
        return self._view(await self._store.read(partial(_info, viewer, model)))

    async def newest(self, viewer: Viewer, limit: int) -> list[TrainableView]:
        """Those that the caller may read, newest first. Raises `StoreUnavailable`."""
        return [self._view(one) for one in await self._store.read(partial(_newest, viewer, limit))]

    async def submit(
        self,
        viewer: Viewer,
        model: str,
        wanted: Wanted,
        *,
        key: str | None = None,
        sequence: int | None = None,
    ) -> str:
        """The future of an op.

        Raises `NoSuchTrainable`, `NoSuchSavedWeights`, `ModelClosed`, `RequestConflict`, `InvalidOp`, `OverBudget`,
        `StoreUnavailable`.
        """
        limits = self._limits
        accepted = await self._store.transact(
            lambda session: insert_request(session, viewer, model, wanted, key, sequence, limits)
        )
        is_private = self._store.is_private
        if not is_private:  # else nothing was posted
            self._relay.notify()
        if accepted.is_new:
            self._waiters.accepted(accepted.owner, accepted.request)
        arrived = accepted.arrived if is_private else None  # others may have older ones
        self._coordinators.notify_of_request(accepted.request.run, arrived)
        return accepted.request.id

    async def outcome(self, viewer: Viewer, future: str, wait_s: float = 0.0) -> Outcome:
        """What came of an op, waited for; `Pending` where nothing did in time.

        Raises `NoSuchFuture`, `StoreUnavailable`.
        """
        ends_s = asyncio.get_running_loop().time() + min(wait_s, LONGEST_WAIT_S)
        with self._waiters.watch([future]) as event:
            while True:
                event.clear()
                found = self._waiters.known(viewer, future)
                if found is None or (found == "open" and not wait_s):
                    found = await self._store.read(
                        partial(outcomes.read, viewer, future, self._places)
                    )
                if isinstance(found, Done | Failed):
                    self._delivered.add(future)
                    return found
                try:
                    async with asyncio.timeout_at(ends_s):
                        await event.wait()
                except TimeoutError:
                    break
        if isinstance(found, Pending) and not wait_s:
            return found
        last = await self._store.read(partial(outcomes.read, viewer, future, self._places))
        if isinstance(last, Done | Failed):
            self._delivered.add(future)
        return last

    async def heard(self, viewer: Viewer, model: str) -> TrainableView:
        """Its client is still there. Raises `NoSuchTrainable`, `ModelClosed`, `StoreUnavailable`."""
        return self._view(await self._store.transact(partial(_touch, viewer, model)))

    async def close(self, viewer: Viewer, model: str) -> TrainableView:
        """Take no more requests, apply those that a trainer has, save, and give the trainer back; closing again
        changes nothing. Raises `NoSuchTrainable`, `StoreUnavailable`."""
        seen = await self._store.transact(partial(_close, viewer, model))
        self._relay.notify()
        self._queue.notify(RunId(seen.run.id))
        self._coordinators.notify(RunId(seen.run.id))
        return self._view(seen)

    async def saved_weights(self, viewer: Viewer, model: str) -> SavedWeights:
        """Raises `NoSuchTrainable`, `StoreUnavailable`."""
        return await self._store.read(lambda session: saved.list_saved(session, viewer, model))

    async def saved_of(self, models: Collection[str]) -> dict[str, SavedWeights]:
        """Of many models, which the caller was shown. Raises `StoreUnavailable`."""
        return await self._store.read(lambda session: saved.saved_of(session, models))

    async def checkpoint(self, viewer: Viewer, path: str) -> ModelCheckpoint:
        """The one that `MODEL/NAME` names. Raises `NoSuchSavedWeights`, `StoreUnavailable`."""
        return await self._store.read(lambda session: saved.resolved(session, viewer, path))

    async def delete_saved(self, viewer: Viewer, model: str, name: SavedName) -> SavedWeights:
        """What is left. Raises `NoSuchTrainable`, `NoSuchSavedWeights`, `SavedWeightsInUse`, `StoreUnavailable`."""

        def work(session: Session) -> SavedWeights:
            saved.delete_saved(session, viewer, model, name)
            return saved.list_saved(session, viewer, model)

        left = await self._store.transact(work)
        self._relay.notify()
        return left

    async def set_ttl(
        self, viewer: Viewer, model: str, name: SavedName, ttl_s: float | None
    ) -> ModelCheckpoint | ModelSnapshot:
        """Raises `NoSuchTrainable`, `NoSuchSavedWeights`, `StoreUnavailable`."""
        set_ttl = partial(saved.set_ttl, viewer=viewer, model=model, asked=name, ttl_s=ttl_s)
        return await self._store.transact(set_ttl)

    async def run(self) -> None:
        """Wake those who wait, and tidy up what is old, until cancelled."""
        await self._broker.declare(MODEL_ANSWERS)
        async with asyncio.TaskGroup() as tasks:
            listening = hear(self._broker, MODEL_ANSWERS, RequestsAnswered, self._waiters.hear)
            tasks.create_task(listening, name="answers of models")
            tasks.create_task(self._tidy(), name="old outcomes")

    async def _tidy(self) -> None:
        next_sweep_s = 0.0
        while True:
            await asyncio.sleep(MARK_S)
            is_due = time.monotonic() >= next_sweep_s
            marked = set(self._delivered)
            if not marked and not is_due:
                continue
            try:
                await self._store.transact(partial(_tidy, marked, is_due))
            except StoreUnavailable:
                continue
            self._relay.notify()
            self._delivered -= marked
            next_sweep_s = time.monotonic() + SWEEP_S if is_due else next_sweep_s

    def _view(self, seen: Shown) -> TrainableView:
        return trainable_view(seen, self._places(seen.run.id))


def _create(
    viewer: Viewer, body: CreateModel, limits: OwnerLimits, session: Session
) -> tuple[Created, Shown]:
    created = insert_model(session, viewer, body, limits)
    return created, _shown(session, (created.run, created.model))


def _find(viewer: Viewer, key: str, session: Session) -> Shown | None:
    found = with_key(session, viewer, key)
    return None if found is None else _shown(session, found)


def _info(viewer: Viewer, model: str, session: Session) -> Shown:
    return _shown(session, readable(session, viewer, model))


def _shown(session: Session, row: tuple[Run, Model]) -> Shown:
    return shown(session, [row])[0]


def _newest(viewer: Viewer, limit: int, session: Session) -> list[Shown]:
    query = (
        select(Run, Model)
        .join(Model, col(Model.run_id) == col(Run.id))
        .where(read_by(viewer), col(Model.is_clients))
    )
    newest = query.order_by(col(Run.created_s).desc()).limit(limit)
    return shown(session, session.exec(newest).all())


def _touch(viewer: Viewer, model: str, session: Session) -> Shown:
    run, row = owned(session, viewer, model)
    if RunState(run.state).is_final:
        raise ModelClosed(f"the model is {run.state}")
    touch(run, session)
    return _shown(session, (run, row))


def _close(viewer: Viewer, model: str, session: Session) -> Shown:
    run, row = owned(session, viewer, model)
    if RunState(run.state).is_final:
        return _shown(session, (run, row))
    is_begun = run.started_s is not None and run.state != RunState.PAUSED
    verb = steering.finish if is_begun else partial(steering.cancel, save=False)
    return _shown(session, (verb(viewer, run.id, session=session), row))


def _tidy(delivered: set[str], is_due: bool, session: Session) -> None:
    now_s = time.time()
    outcomes.mark_delivered(session, delivered, now_s)
    if is_due:
        outcomes.delete_old(session, now_s)
        saved.delete_expired(session, now_s)
