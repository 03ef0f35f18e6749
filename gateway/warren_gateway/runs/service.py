"""Runs as their owners see them: submit, look, list, steer.

Invariants
- A run, its model and its first event become true in one transaction.
- The same idempotency key of the same owner gives the same run, also when it comes twice at once.
- Whoever is neither the owner nor an admin, nor has it shared with them, sees nothing: such a run does not
  exist. Only the first two change it.
- Streams are made after the commit: a gateway that dies in between leaves none that nobody knows.
"""

import asyncio
import logging
import shutil
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from sqlalchemy.exc import IntegrityError
from sqlmodel import Session, col, select

from warren_broker.errors import BrokerError
from warren_broker.port import Broker
from warren_broker.topology import run_events
from warren_gateway.access.caller import Viewer
from warren_gateway.probe import within
from warren_gateway.runs import steering
from warren_gateway.runs.changing import change
from warren_gateway.runs.checkpoints import list_checkpoints
from warren_gateway.runs.deleting import RunInUse, delete_run
from warren_gateway.runs.listing import newest_runs
from warren_gateway.runs.newer_versions import readable_submission
from warren_gateway.runs.owned import (
    NoSuchRun,
    owned_run,
    owned_runs,
    readable_run,
    seen_by,
)
from warren_gateway.runs.retrying import retrial
from warren_gateway.runs.streams import streams_of
from warren_gateway.runs.submitting import insert_unless_known, new_row, with_key_of
from warren_gateway.runs.views import run_view
from warren_gateway.store.outbox import Relay, is_unsent
from warren_gateway.store.store import Store
from warren_gateway.store.tables import HistoryRow, Model, Run
from warren_gateway.usage.limits import DEFAULT_LIMITS, OwnerLimits
from warren_schemas.config import TrainConfig
from warren_schemas.events import RunState
from warren_schemas.http import CheckpointList, QueuePlace, RunView, SetRun, SubmitRun
from warren_schemas.ids import RunId
from warren_schemas.tensorboard.about import folder_name

DECLARE_S = 5.0
"""How long a submission waits for a broker that is away."""

log = logging.getLogger(__name__)


class KeyReused(Exception):
    """The idempotency key already names a run with another config."""

    def __init__(self, run: str) -> None:
        super().__init__(run)
        self.run = run


class Notified(Protocol):
    """Somebody who takes care of runs: the coordinators, the metrics consumer."""

    def notify(self, run: RunId, /) -> None: ...


@dataclass(frozen=True, slots=True)
class LiveModel:
    id: str
    epoch: int


class Runs:
    def __init__(
        self,
        store: Store,
        broker: Broker,
        relay: Relay,
        *,
        runs_dir: Path,
        queue: Notified,
        followers: Sequence[Notified],
        limits: OwnerLimits = DEFAULT_LIMITS,
        places: Callable[[str], QueuePlace | None] = lambda _: None,
    ) -> None:
        """`queue` is told of every new run that needs a trainer, `followers` of the others and of what owners want
        of theirs; `places`: where a run stands in the queue for trainers."""
        self._queue = queue
        self._places = places
        self._store = store
        self._broker = broker
        self._relay = relay
        self._runs_dir = runs_dir
        self._followers = followers
        self._limits = limits

    async def submit_run(self, viewer: Viewer, body: SubmitRun) -> tuple[RunView, bool]:
        """The run, and whether it is new.

        A broker that is away doesn't matter: the run waits for it. Raises `KeyReused`,
        `UnusableSource`, `UnusableDataset`, `UnusableCheckpoint`, `OverBudget`, `StoreUnavailable`.
        """
        return await self._submit(viewer, viewer.user, body)

    async def retry(self, viewer: Viewer, run: str) -> tuple[RunView, bool]:
        """The run that goes on for one that failed or was cancelled, and whether it is new.

        Raises as `submit_run`, and `NoSuchRun`, `RunHasEnded`, `WrongState`.
        """
        owner, body = await self._store.read(partial(retrial, viewer, run))
        return await self._submit(viewer, owner, body, retry_of=run)

    async def _submit(
        self, viewer: Viewer, owner: str, body: SubmitRun, *, retry_of: str | None = None
    ) -> tuple[RunView, bool]:
        run = new_row(owner, body, retry_of=retry_of)
        insert = partial(insert_unless_known, run, viewer, body.config, self._limits)
        try:
            known = await self._store.transact(insert)
        except IntegrityError:  # the same key, a moment earlier
            known = await self._store.transact(partial(with_key_of, run))
            if known is None:
                raise
        if known is not None:
            return self._known(known, body), False
        self._announce_new(RunId(run.id), body.config)
        return self._view(run), True

    async def show(self, viewer: Viewer, run: str) -> RunView:
        """Raises `NoSuchRun`, `StoreUnavailable`."""
        row, history = await self._store.read(partial(_get_with_history, viewer, run))
        return run_view(row, self._runs_dir, history, self._places(row.id))

    async def has_unsent_events(self, run: str) -> bool:
        """Whether an event of the run may not be in its stream yet. Raises `StoreUnavailable`."""
        return await self._store.read(lambda session: is_unsent(session, run_events(run)))

    async def newest(
        self,
        viewer: Viewer,
        state: RunState | None,
        limit: int,
        *,
        shared: bool = False,
        sweep: str | None = None,
    ) -> list[RunView]:
        """The newest runs of this viewer, or those that are shared with them, newest first.

        Raises `StoreUnavailable`.
        """
        rows = await self._store.read(partial(newest_runs, viewer, state, limit, shared, sweep))
        return [self._view(row) for row in rows]

    async def cancel(self, viewer: Viewer, run: str, *, save: bool = False) -> RunView:
        """Ask for the end of a run, with `save` once a checkpoint is written; asking again, or when it is
        cancelled, changes nothing.

        Raises `NoSuchRun`, `RunHasEnded`, `StoreUnavailable`.
        """
        return await self._steer(run, partial(steering.cancel, viewer, run, save))

    async def finish(self, viewer: Viewer, run: str) -> RunView:
        """Ask for its early end: a last evaluation, a checkpoint, completed. Raises as `cancel`, and `WrongState`."""
        return await self._steer(run, partial(steering.finish, viewer, run))

    async def pause(self, viewer: Viewer, run: str) -> RunView:
        """Ask for it to be saved and to give its trainer back. Raises as `finish`."""
        return await self._steer(run, partial(steering.pause, viewer, run))

    async def resume(self, viewer: Viewer, run: str) -> RunView:
        """Ask for it to go on. Raises as `finish`, and `OverBudget`."""
        return await self._steer(run, partial(steering.resume, viewer, run, self._limits))

    async def change(self, viewer: Viewer, run: str, body: SetRun) -> RunView:
        """Change its priority and its limits. Raises as `finish`, and `NotPermitted`, `InvalidChange`,
        `UnusableCheckpoint`."""
        view = await self._steer(run, partial(change, viewer, run, body))
        self._queue.notify(RunId(run))
        return view

    async def _steer(self, run: str, change: Callable[[Session], Run]) -> RunView:
        row = await self._store.transact(change)
        self._announce(RunId(run))
        return self._view(row)

    async def checkpoints(self, viewer: Viewer, run: str) -> CheckpointList:
        """What is kept of the run's model. Raises `NoSuchRun`, `StoreUnavailable`."""
        return await self._store.read(
            lambda session: list_checkpoints(session, _get(viewer, run, session))
        )

    async def delete(self, viewer: Viewer, run: str) -> None:
        """Delete a run that is over: what is here at once, its model's files by a trainer.

        Raises `NoSuchRun`, `RunInUse`, `StoreUnavailable`.
        """
        view = self._view(await self._store.read(partial(_own, viewer, run)))
        if view.config is None:
            raise RunInUse(f"{run} is of a newer gateway; ask that one to delete it")
        await self._store.transact(lambda session: delete_run(session, _own(viewer, run, session)))
        self._relay.notify()
        folder = self._runs_dir / folder_name(view.name, view.id)
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
        try:
            await within(DECLARE_S, self._broker.delete(*streams_of(run, view.config)))
        except BrokerError as error:  # their retention ends them as well
            log.warning("the streams of %s were not deleted: %s", run, error)

    async def owned(self, viewer: Viewer, runs: Collection[str]) -> set[str]:
        """Those of these runs that are this viewer's."""
        return await self._store.read(lambda session: owned_runs(session, viewer, runs))

    async def live_models(self, viewer: Viewer) -> list[LiveModel]:
        """Models of this viewer's runs that are still trained."""
        return await self._store.read(partial(_live_models, viewer))

    def _known(self, row: Run, body: SubmitRun) -> RunView:
        """The run that this idempotency key has already made. Raises `KeyReused`."""
        if readable_submission(row) != body.config:
            raise KeyReused(row.id)
        return self._view(row)

    def _announce_new(self, run: RunId, config: TrainConfig) -> None:
        """One that waits for a trainer is nobody's to drive before the scheduler admits it."""
        if config.needs_trainer:
            self._relay.notify()
            self._queue.notify(run)
        else:
            self._announce(run)

    def _announce(self, run: RunId) -> None:
        self._relay.notify()
        for follower in self._followers:
            follower.notify(run)

    def _view(self, row: Run) -> RunView:
        return run_view(row, self._runs_dir, place=self._places(row.id))


def _get(viewer: Viewer, run: str, session: Session) -> Run:
    row = readable_run(session, viewer, run)
    if row is None:
        raise NoSuchRun(run)
    return row


def _own(viewer: Viewer, run: str, session: Session) -> Run:
    row = owned_run(session, viewer, run)
    if row is None:
        raise NoSuchRun(run)
    return row


def _get_with_history(viewer: Viewer, run: str, session: Session) -> tuple[Run, list[HistoryRow]]:
    row = _get(viewer, run, session)
    query = select(HistoryRow).where(col(HistoryRow.run_id) == run).order_by(col(HistoryRow.id))
    return row, list(session.exec(query))


def _live_models(viewer: Viewer, session: Session) -> list[LiveModel]:
    query = (
        select(Model)
        .join(Run, col(Run.id) == col(Model.run_id))
        .where(seen_by(viewer), col(Model.is_closed).is_(False))
    )
    return [LiveModel(model.id, model.epoch) for model in session.exec(query)]
