"""Users: added, listed, disabled, removed.

Invariants
- A name belongs to one user for ever: whoever was removed leaves runs behind, which nobody inherits.
- There is always an admin: the gateway's own user can be neither disabled nor removed.
- A user who is disabled or removed is refused within `callers.CACHE_S`; runs go on until somebody
  cancels them, and removing is refused while there are any.
"""

import time
from collections.abc import Callable
from functools import partial

from sqlalchemy.exc import IntegrityError
from sqlmodel import Session, col, func, or_, select

from warren_gateway.access.callers import Callers
from warren_gateway.access.key import Key
from warren_gateway.access.problems import UserConflict
from warren_gateway.access.rows import LOCAL_USER, first_key_row, key_view, require_user
from warren_gateway.store.store import Store
from warren_gateway.store.tables import ApiKey, Run, User
from warren_schemas.events import RunState
from warren_schemas.users.access import AddUser, NewKey, UserAdded, UserView

_OVER = [state.value for state in RunState if state.is_final]


class Users:
    def __init__(self, store: Store, callers: Callers) -> None:
        self._store = store
        self._callers = callers

    async def add(self, wanted: AddUser) -> UserAdded:
        """A user with a first key. Raises `UserConflict` for a name that is or was taken."""
        key = Key.new()
        try:
            view, row = await self._store.transact(partial(_add, wanted, key))
        except IntegrityError as error:
            raise UserConflict(
                f"There is a user {wanted.name} already, or there was one"
            ) from error
        return UserAdded(user=view, first_key=NewKey(key=str(key), view=key_view(row)))

    async def listed(self) -> tuple[UserView, ...]:
        """By name. Raises `StoreUnavailable`."""
        return await self._store.read(_listed)

    async def disable(self, name: str) -> UserView:
        """Refuse all keys of this user. Raises `NoSuchUser`, `UserConflict`."""
        return await self._change(partial(_disable, name))

    async def enable(self, name: str) -> UserView:
        """Take their keys again. Raises `NoSuchUser`."""
        return await self._change(partial(_enable, name))

    async def remove(self, name: str) -> UserView:
        """Revoke all keys, for good. Raises `NoSuchUser`, `UserConflict`."""
        return await self._change(partial(_remove, name))

    async def _change(self, work: Callable[[Session], UserView]) -> UserView:
        view = await self._store.transact(work)
        self._callers.forget()
        return view


def _add(wanted: AddUser, key: Key, session: Session) -> tuple[UserView, ApiKey]:
    user = User(name=wanted.name, is_admin=wanted.is_admin, created_s=time.time())
    session.add(user)
    session.flush()
    row = first_key_row(user, key)
    session.add(row)
    session.flush()
    return user_view(session, user), row


def _listed(session: Session) -> tuple[UserView, ...]:
    query = select(User).where(col(User.removed_s).is_(None)).order_by(col(User.name))
    return tuple(user_view(session, user) for user in session.exec(query).all())


def _disable(name: str, session: Session) -> UserView:
    user = _require_other(session, name, "disabled")
    user.disabled_s = user.disabled_s or time.time()
    return user_view(session, user)


def _enable(name: str, session: Session) -> UserView:
    user = require_user(session, name)
    user.disabled_s = None
    return user_view(session, user)


def _remove(name: str, session: Session) -> UserView:
    user = _require_other(session, name, "removed")
    n_active = _n_active(session, name)
    if n_active:
        raise UserConflict(f"{name} has {n_active} runs that are not over; cancel them first")
    user.removed_s = time.time()
    for key in session.exec(select(ApiKey).where(col(ApiKey.owner) == name)):
        key.revoked_s = key.revoked_s or user.removed_s
    session.flush()
    return user_view(session, user)


def _require_other(session: Session, name: str, done: str) -> User:
    if name == LOCAL_USER:
        raise UserConflict(f"{name} is this gateway's own user and can't be {done}")
    return require_user(session, name)


def user_view(session: Session, user: User) -> UserView:
    return UserView(
        name=user.name,
        is_admin=user.is_admin,
        created_s=user.created_s,
        disabled_s=user.disabled_s,
        n_keys=_n_keys(session, user.name),
        n_active_runs=_n_active(session, user.name),
    )


def _n_keys(session: Session, user: str) -> int:
    is_good = or_(col(ApiKey.expires_s).is_(None), col(ApiKey.expires_s) > time.time())
    query = select(func.count()).select_from(ApiKey).where(col(ApiKey.owner) == user)
    return session.exec(query.where(col(ApiKey.revoked_s).is_(None), is_good)).one()


def _n_active(session: Session, user: str) -> int:
    query = select(func.count()).select_from(Run).where(col(Run.owner) == user)
    return session.exec(query.where(col(Run.state).not_in(_OVER))).one()
