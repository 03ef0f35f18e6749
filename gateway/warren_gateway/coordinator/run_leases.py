"""The lease of a run: which gateway's coordinator drives it.

Invariants
- One holder per epoch; the epoch rises with every grant, and a change is committed only in the epoch
  in force (`fence`). So a gateway that was frozen, cut off or merely slow can't write any more once
  another one has taken the run over, whatever it still believes.
- A change that follows from the limits of the run (a step that is taken, the end of training) is committed only
  while they are still those in force.
- A change is committed once: it carries a number, and one whose commit was made but not heard of is
  recognised when it comes again.
- Leases run by the store's clock alone; the clocks of the gateways don't matter.
- What a gateway had posted and not sent when it died is sent by who takes over its runs, at once.
- A run whose job waits for its first trainer has no coordinator, unless it is one of the next (`call_for`), or to be
  cancelled or given up.
- A run that has ended is held until its queues are gone, so that they are even if its gateway dies.

A SQLite store belongs to one gateway, so the one that starts takes over at once what its forerunner
held.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, and_, bindparam, exists, update
from sqlmodel import Session, col, or_, select

from warren_gateway.defaults import LEASE_S
from warren_gateway.store.clock import store_time_s
from warren_gateway.store.frozen import end_frozen
from warren_gateway.store.statements import table
from warren_gateway.store.tables import JobRow, OutboxRow, Run
from warren_schemas.events import RunState
from warren_schemas.ids import RunId

RENEWALS = 4
"""Renewals in the time of a lease, and looks for runs that nobody drives; a lease of another gateway that
runs out before the next look is looked at then."""
SILENT_SHARE = 5 / 6
"""A gateway that is silent for this part of a lease in a transaction is taken for frozen: less than all of
it, so that whoever may take a run over also can."""
LOOK_AGAIN_S = 0.25
"""Least time between two looks: a run may be locked by a gateway that froze in a transaction."""
MOST_AT_ONCE = 64
"""Runs taken over at one look, so that the runs of a lost gateway spread over those that are left."""
TO_COME = ""
"""In the place of a gateway's name: whoever looks first takes the run up."""
FINAL = [state.value for state in RunState if state.is_final]

_RUNS = table(Run)
_IS_OLDER = (
    (_RUNS.c.id == bindparam("its_id"))
    & (_RUNS.c.epoch == bindparam("its_epoch"))
    & (_RUNS.c.revision < bindparam("newest"))
)
_NUMBER = update(_RUNS).where(_IS_OLDER).values(revision=bindparam("newest"))
_NUMBER_BY_LIMITS = _NUMBER.where(_RUNS.c.limits_number == bindparam("its_limits"))


class LeaseLost(Exception):
    """Another coordinator drives the run now."""


class LimitsChanged(Exception):
    """The owner has changed the limits that a change was decided by: it must be decided anew."""


@dataclass(frozen=True, slots=True)
class Renewed:
    epoch: int
    is_cancel_requested: bool
    stop_request: str | None
    limits_number: int
    given_up: str | None
    is_admitted: bool
    """Its job may go to a trainer."""

    @property
    def asked(self) -> tuple[bool, str | None, str | None, int]:
        """What others than its coordinator have written."""
        return self.is_cancel_requested, self.stop_request, self.given_up, self.limits_number


def claim(
    session: Session,
    gateway: str,
    *,
    lease_s: float = LEASE_S,
    is_alone: bool = False,
    but: Collection[RunId] = (),
) -> dict[RunId, int]:
    """Take runs that nobody drives; their epochs. `is_alone`: those of other gateways as well.

    `but` are left to others.
    A run whose row is locked is left for the next look: whoever drove it may have frozen in a
    transaction, which is ended here.
    """
    end_frozen(session, silent_s=lease_s * SILENT_SHARE)
    now_s = store_time_s(session)
    unheld = or_(_is_at_work(), col(Run.coordinator).is_not(None))
    query = (
        select(Run)
        .where(unheld, col(Run.id).not_in(but))
        .order_by(col(Run.leased_until_s), col(Run.id))
    )
    if not is_alone:
        query = query.where(col(Run.leased_until_s) < now_s).limit(MOST_AT_ONCE)
    claimed: dict[RunId, int] = {}
    before: set[str] = set()
    for run in session.exec(query.with_for_update(skip_locked=True)):
        if run.coordinator not in (None, gateway):
            before.add(run.coordinator)
        run.coordinator = gateway
        run.epoch += 1
        run.leased_until_s = now_s + lease_s
        claimed[RunId(run.id)] = run.epoch
    if before:
        _adopt_posts(session, gateway, before, now_s)
    return claimed


def call_for(session: Session, runs: Collection[RunId]) -> tuple[RunId, ...]:
    """Have coordinators take these runs up before they are admitted; those that had none."""
    if not runs:
        return ()
    ours = col(Run.id).in_(runs), col(Run.coordinator).is_(None)
    called = update(Run).where(*ours).values(coordinator=TO_COME, leased_until_s=0.0)
    return tuple(RunId(run) for (run,) in session.exec(called.returning(col(Run.id))))


def _is_at_work() -> ColumnElement[bool]:
    """The run is not over, and was admitted once; or it is to be ended."""
    never_admitted = (
        select(JobRow.number)
        .where(col(JobRow.run_id) == col(Run.id))
        .where(col(JobRow.state) == "queued", col(JobRow.is_interrupted).is_(False))
    )
    return and_(
        col(Run.state).not_in(FINAL),
        or_(
            col(Run.is_cancel_requested),
            col(Run.stop_request).is_not(None),
            col(Run.given_up).is_not(None),
            ~exists(never_admitted),
        ),
    )


def _adopt_posts(session: Session, gateway: str, before: Collection[str], now_s: float) -> None:
    """Send what those posted who drove runs before and drive none any more.

    One that was only frozen may send it as well: duplicates.
    """
    session.flush()
    driving = select(Run.coordinator).where(col(Run.leased_until_s) >= now_s)
    gone = set(before) - set(session.exec(driving))
    theirs = col(OutboxRow.gateway).in_(gone)
    session.exec(update(OutboxRow).where(theirs).values(gateway=gateway))


def until_next_lapse_s(session: Session, gateway: str) -> float | None:
    """How long until the first lease of another gateway runs out, unless it is renewed."""
    others = col(Run.coordinator) != gateway, col(Run.leased_until_s) > 0.0
    query = select(col(Run.leased_until_s)).where(*others).order_by(col(Run.leased_until_s))
    first_s = session.exec(query.limit(1)).first()
    return None if first_s is None else first_s - store_time_s(session)


def renew(
    session: Session, gateway: str, held: Collection[RunId], *, lease_s: float = LEASE_S
) -> Mapping[RunId, Renewed]:
    """Hold on to these runs; those that are still ours."""
    ours = col(Run.coordinator) == gateway, col(Run.id).in_(list(held))
    until_s = store_time_s(session) + lease_s
    session.exec(update(Run).where(*ours).values(leased_until_s=until_s))
    columns = sa.select(
        col(Run.id),
        col(Run.epoch),
        col(Run.is_cancel_requested),
        col(Run.stop_request),
        col(Run.limits_number),
        col(Run.given_up),
    )
    rows = session.connection().execute(columns.where(*ours))
    may_go = col(JobRow.run_id).in_(list(held)), col(JobRow.state) == "admitted"
    admitted = set(session.exec(select(JobRow.run_id).where(*may_go)))
    return {
        RunId(run): Renewed(epoch, is_over, stop_request, limits_number, given_up, run in admitted)
        for run, epoch, is_over, stop_request, limits_number, given_up in rows
    }


def let_go(session: Session, gateway: str) -> None:
    """Give up every run, so that another gateway need not wait."""
    session.exec(update(Run).where(col(Run.coordinator) == gateway).values(leased_until_s=0.0))


def settle(session: Session, run: RunId, epoch: int) -> None:
    """The run has ended and everything of it is cleaned up: nobody needs to hold it."""
    mine = (col(Run.id) == run) & (col(Run.epoch) == epoch)
    session.exec(update(Run).where(mine).values(coordinator=None, leased_until_s=0.0))


def fence(
    session: Session,
    run: RunId,
    *,
    epoch: int,
    revision: int,
    limits_number: int | None = None,
    columns: Mapping[str, Any] = MappingProxyType({}),
) -> bool:
    """Number this transaction, and change these columns of the run's row with it; False if it was committed before.
    Raises `LeaseLost`, and `LimitsChanged` where the limits of this number are not in force."""
    named = {"its_id": run, "its_epoch": epoch, "newest": revision, "its_limits": limits_number}
    ours = {**columns, **named}
    number = _NUMBER if limits_number is None else _NUMBER_BY_LIMITS
    if session.connection().execute(number, ours).rowcount:
        return True
    query = select(Run.epoch, Run.revision, Run.limits_number).where(col(Run.id) == run)
    row = session.exec(query).one_or_none()
    if row is None or row[0] != epoch or row[1] > revision:
        raise LeaseLost(f"{run}: epoch {epoch} is over")
    if row[1] < revision:
        raise LimitsChanged(f"{run}: limits {row[2]} are in force, not {limits_number}")
    return False
