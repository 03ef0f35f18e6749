"""How much each user may have: what an admin set for them, or else what the gateway's options say.

Invariant: limits are read from the store when they are asked for, so that one that was changed holds at
once, at every gateway, for what comes from then on.
"""

import time
from collections.abc import Collection
from functools import partial

from sqlmodel import Session, col, func, select

from warren_gateway.access.caller import Caller
from warren_gateway.access.callers import Callers
from warren_gateway.access.problems import NoSuchUser
from warren_gateway.access.rows import require_user
from warren_gateway.access.users import user_view
from warren_gateway.budgets.options import BudgetOptions
from warren_gateway.store.store import Store
from warren_gateway.store.tables import JobRow, Run, SchedulerRow, User
from warren_gateway.usage.evaluated import loaded_lately
from warren_gateway.usage.stored_bytes import GIB, stored_bytes
from warren_schemas.base import Frozen
from warren_schemas.events import RunState
from warren_schemas.users.limits import Limits, LimitView, UserDetails


class InForce(Frozen):
    """The limits of one user as they are in force."""

    runs_queued: int
    runs_running: int
    episodes_in_flight: int
    evaluated_models_per_hour: int
    gpu_weight: float
    stored_gib: float
    requests_per_s: float


class OwnerLimits:
    def __init__(self, options: BudgetOptions) -> None:
        self._defaults = InForce(
            runs_queued=options.runs_queued_per_owner,
            runs_running=options.runs_running_per_owner,
            episodes_in_flight=options.episodes_in_flight_per_owner,
            evaluated_models_per_hour=options.evaluated_models_per_hour_per_owner,
            gpu_weight=1.0,
            stored_gib=options.stored_gib_per_owner,
            requests_per_s=options.requests_per_s_per_owner,
        )

    def of(self, user: User | None) -> InForce:
        """What holds for this user; for nobody that we know, the defaults."""
        return self._defaults.model_copy(update={} if user is None else _own(user))

    def of_all(self, session: Session, owners: Collection[str]) -> dict[str, InForce]:
        """What holds for each of these."""
        rows = session.exec(select(User).where(col(User.name).in_(owners)))
        users = {user.name: user for user in rows}
        return {owner: self.of(users.get(owner)) for owner in owners}


DEFAULT_LIMITS = OwnerLimits(BudgetOptions())


class UserLimits:
    """Limits of users, shown and set."""

    def __init__(self, store: Store, callers: Callers, limits: OwnerLimits) -> None:
        self._store = store
        self._callers = callers
        self._limits = limits

    async def show(self, caller: Caller, name: str) -> UserDetails:
        """A user sees their own. Raises `NoSuchUser`, `StoreUnavailable`."""
        if name != caller.user and not caller.is_admin:
            raise NoSuchUser(f"There is no user {name}")
        return await self._store.read(partial(_show, self._limits, name))

    async def change(self, name: str, wanted: Limits) -> UserDetails:
        """Set the limits that were given; one that is null is the default from now on.

        Raises `NoSuchUser`, `StoreUnavailable`.
        """
        details = await self._store.transact(partial(_change, self._limits, name, wanted))
        self._callers.forget()
        return details


def _own(user: User) -> dict[str, object]:
    """Also of a newer gateway, which may know other ones."""
    return {name: value for name, value in user.limits.items() if name in InForce.model_fields}


def _show(limits: OwnerLimits, name: str, session: Session) -> UserDetails:
    return _details(session, limits, require_user(session, name))


def _change(limits: OwnerLimits, name: str, wanted: Limits, session: Session) -> UserDetails:
    user = require_user(session, name)
    changed = user.limits | wanted.model_dump(include=wanted.model_fields_set)
    user.limits = {key: value for key, value in changed.items() if value is not None}
    session.flush()
    return _details(session, limits, user)


def _details(session: Session, limits: OwnerLimits, user: User) -> UserDetails:
    in_force, own, used = limits.of(user), _own(user), _used(session, user.name)
    views = (
        LimitView(name=name, limit=limit, used=used.get(name), is_default=name not in own)
        for name, limit in in_force.model_dump().items()
    )
    return UserDetails(user=user_view(session, user), limits=tuple(views))


def _used(session: Session, owner: str) -> dict[str, float]:
    scheduler = session.get_one(SchedulerRow, 1)
    is_held = (col(JobRow.owner) == owner) & col(JobRow.state).in_(["admitted", "taken"])
    return {
        "runs_queued": n_queued(session, owner),
        "runs_running": session.exec(select(func.count()).where(is_held)).one(),
        "evaluated_models_per_hour": len(loaded_lately(scheduler, owner, time.time())),
        "stored_gib": stored_bytes(session, owner) / GIB,
    }


def n_queued(session: Session, owner: str) -> int:
    """Runs of this owner that wait for their start."""
    query = select(func.count()).select_from(Run).where(col(Run.owner) == owner)
    return session.exec(query.where(col(Run.state) == RunState.QUEUED)).one()
