"""Runs that end with their client: who renews no more is taken to be gone, and the run is saved and cancelled.

Invariants
- The lease runs by the store's clock, whichever gateway hears of the client.
- A gateway ends no run whose client it could not have heard: for a whole lease it was there itself, and so was the
  store. So a gateway that was away, or frozen, gives clients the time of a lease once more.
- A run that is paused, finishing or being cancelled is left alone: the first holds nothing, the others end by
  themselves. One that is resumed begins a new lease.
"""

import asyncio
import logging
from collections.abc import Sequence
from functools import partial

from sqlmodel import Session, col, or_, select

from warren_gateway.access.caller import Viewer
from warren_gateway.runs.steering import WrongState, locked, post_run_changed, require_going
from warren_gateway.stop_request import StopRequest
from warren_gateway.store.clock import store_time_s
from warren_gateway.store.outbox import Relay
from warren_gateway.store.store import Store, StoreUnavailable
from warren_gateway.store.tables import Run
from warren_schemas.events import RunState
from warren_schemas.http.runs import ClientLease
from warren_schemas.ids import RunId

LOOK_S = 1.0
"""Other gateways take submissions and renewals too, so no event tells of the next lapse."""
_LEFT_ALONE = [
    *(state for state in RunState if state.is_final),
    RunState.PAUSED,
    RunState.FINISHING,
]
CLOSE = "close"
"""`run.on_disconnect` of a model that its client trains: its coordinator closes it, once it is in nobody's queue."""
FROZEN_S = 5.0
"""A look that comes so much later than it should says that this process stood still."""

log = logging.getLogger(__name__)


class ClientLeases:
    def __init__(self, store: Store, relay: Relay, *, look_s: float = LOOK_S) -> None:
        self._store = store
        self._relay = relay
        self._look_s = look_s

    async def renew(self, viewer: Viewer, run: str) -> ClientLease:
        """The client is there. Raises `NoSuchRun`, `RunHasEnded`, `WrongState`, `StoreUnavailable`."""
        return await self._store.transact(partial(_renew, viewer, run))

    async def run(self) -> None:
        """End the runs of clients that are gone; never returns."""
        loop = asyncio.get_running_loop()
        since_s = seen_s = loop.time()
        while True:
            await asyncio.sleep(self._look_s)
            if loop.time() - seen_s > self._look_s + FROZEN_S:
                since_s = loop.time()
            try:
                attended_s = loop.time() - since_s
                ended = await self._store.transact(lambda s, a=attended_s: end_lapsed(s, a))
            except StoreUnavailable:
                ended, since_s = (), loop.time()
            seen_s = loop.time()
            if ended:
                log.info("the clients of these runs are gone: %s", ", ".join(ended))
                self._relay.notify()


def _renew(viewer: Viewer, run: str, session: Session) -> ClientLease:
    row = locked(session, viewer, run)
    require_going(row)
    if row.client_lease_s is None:
        why = f"Run {run} goes on without a client, so there is no lease to renew"
        raise WrongState(why, "Only a run submitted with `on_disconnect: cancel` has one.")
    row.client_until_s = store_time_s(session) + row.client_lease_s
    return ClientLease(run=RunId(run), state=RunState(row.state), until_s=row.client_until_s)


def end_lapsed(session: Session, attended_s: float) -> Sequence[str]:
    """The runs that are ended now. `attended_s`: for how long their clients could have been heard here."""
    lapsed = (
        select(Run)
        .where(col(Run.state).not_in(_LEFT_ALONE))
        .where(col(Run.client_until_s) < store_time_s(session))
        .where(col(Run.client_lease_s) <= attended_s)
        .where(col(Run.stop_request).is_(None), col(Run.is_cancel_requested).is_(False))
        .where(or_(col(Run.on_disconnect) != CLOSE, col(Run.state) == RunState.QUEUED))
    )
    rows = session.exec(lapsed.with_for_update(skip_locked=True)).all()
    for row in rows:
        row.stop_request = StopRequest.CLIENT_GONE
        row.is_cancel_requested = row.state == RunState.QUEUED  # it has nothing to save
        post_run_changed(session, row)
    return [row.id for row in rows]
