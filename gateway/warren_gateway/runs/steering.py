"""What owners ask of runs that go on, as changes of their rows; the coordinator does the rest.

Invariants: the row is locked, so that of two who ask at once one sees what the other asked; asking again changes
nothing; a verb that makes no sense in the run's state is refused with what can be done instead. The gateway that
drives the run is told by a message of the same transaction.
"""

from sqlmodel import Session

from warren_broker.topology import RUN_CHANGES
from warren_gateway.access.caller import Viewer
from warren_gateway.runs.owned import NoSuchRun, owned_run
from warren_gateway.runs.submitting import require_queue_place
from warren_gateway.stop_request import StopRequest
from warren_gateway.store.clock import store_time_s
from warren_gateway.store.outbox import post
from warren_gateway.store.tables import Run
from warren_gateway.usage.limits import OwnerLimits
from warren_schemas.control import RunChanged
from warren_schemas.envelope import Envelope
from warren_schemas.events import RunState
from warren_schemas.ids import RunId


class RunHasEnded(Exception):
    """What was asked for makes no sense any more."""

    def __init__(self, run: str, state: RunState) -> None:
        super().__init__(run, state)
        self.run = run
        self.state = state


class WrongState(Exception):
    """What was asked for makes no sense now; says why and what can be done."""

    def __init__(self, why: str, hint: str) -> None:
        super().__init__(why)
        self.hint = hint


def cancel(viewer: Viewer, run: str, save: bool, session: Session) -> Run:
    """End it, at once or as soon as it is saved; of both requests the first one is the stronger."""
    row = locked(session, viewer, run)
    if row.state == RunState.CANCELLED:
        return row
    require_going(row)
    if not save or row.state in (RunState.QUEUED, RunState.PAUSED):  # nothing that is not saved
        row.is_cancel_requested = True
    elif not _is_being_cancelled(row):
        row.stop_request = StopRequest.SAVE_AND_CANCEL
    return post_run_changed(session, row)


def finish(viewer: Viewer, run: str, session: Session) -> Run:
    """Take no more steps, save, and complete."""
    row = locked(session, viewer, run)
    if row.state == RunState.COMPLETED:
        return row
    require_going(row)
    require_not_cancelled(row)
    if row.state == RunState.QUEUED and row.started_s is None:
        why = f"Run {run} is queued and has done nothing that could be finished"
        raise WrongState(why, f"`warren runs cancel {run}` takes it out of the queue.")
    if row.state == RunState.PAUSED:
        why = f"Run {run} is paused"
        raise WrongState(why, f"`warren runs resume {run}` first, or `warren runs cancel {run}`.")
    if row.state != RunState.FINISHING:  # which is doing so by itself
        row.stop_request = StopRequest.FINISH
    return post_run_changed(session, row)


def pause(viewer: Viewer, run: str, session: Session) -> Run:
    """Save it, and give its trainer back until it is resumed."""
    row = locked(session, viewer, run)
    require_going(row)
    require_not_cancelled(row)
    if row.stop_request == StopRequest.FINISH or row.state == RunState.FINISHING:
        why = f"Run {run} is finishing"
        raise WrongState(why, f"Wait for its end, or `warren runs cancel {run}`.")
    row.stop_request = StopRequest.PAUSE
    return post_run_changed(session, row)


def resume(viewer: Viewer, run: str, limits: OwnerLimits, session: Session) -> Run:
    """Let it go on; what is not paused goes on already. Raises `OverBudget` where the queue has no place."""
    row = locked(session, viewer, run)
    require_going(row)
    require_not_cancelled(row)
    if row.stop_request != StopRequest.PAUSE:
        return row
    if row.state == RunState.PAUSED:
        require_queue_place(session, row.owner, limits)
    row.stop_request = None
    if row.client_lease_s is not None:
        row.client_until_s = store_time_s(session) + row.client_lease_s
    return post_run_changed(session, row)


def locked(session: Session, viewer: Viewer, run: str) -> Run:
    """The run's row, for whoever changes it. Raises `NoSuchRun`."""
    row = owned_run(session, viewer, run, for_update=True)
    if row is None:
        raise NoSuchRun(run)
    return row


def require_going(row: Run) -> None:
    """Raises `RunHasEnded`."""
    if (state := RunState(row.state)).is_final:
        raise RunHasEnded(row.id, state)


def require_not_cancelled(row: Run) -> None:
    """Raises `WrongState`."""
    if _is_being_cancelled(row):
        why = f"Run {row.id} is being cancelled"
        raise WrongState(why, f"`warren runs show {row.id}` shows when it is.")


def _is_being_cancelled(row: Run) -> bool:
    return row.is_cancel_requested or row.stop_request in (
        StopRequest.SAVE_AND_CANCEL,
        StopRequest.CLIENT_GONE,
    )


def post_run_changed(session: Session, row: Run) -> Run:
    """The row, of whose change the gateway hears that drives the run."""
    changed = RunChanged(envelope=Envelope(run=RunId(row.id)), changed_run=RunId(row.id))
    post(session, RUN_CHANGES, changed)
    return row
