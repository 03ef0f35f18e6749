"""API keys: made, listed, rotated, revoked.

Invariants
- Nobody makes a key that may do more than the one that they call with, or for longer: a key that leaks ends
  when it was meant to. Nor does anybody touch a key of somebody else, unless they are an admin.
- What a key may do is set when it is made; only its end can change.
- The whole key is in one answer and nowhere else.
"""

import hmac
import time
from functools import partial

from sqlalchemy.exc import IntegrityError
from sqlmodel import Session, col, select

from warren_gateway.access.caller import Caller
from warren_gateway.access.callers import Callers
from warren_gateway.access.key import InvalidKey, Key
from warren_gateway.access.problems import KeyHasEnded, NoSuchKey, NotPermitted
from warren_gateway.access.rows import LOCAL_USER, first_key_row, key_view, require_user
from warren_gateway.store.store import Store
from warren_gateway.store.tables import ApiKey, User
from warren_schemas.ids import can_be_id
from warren_schemas.users.access import CreateKey, KeyScope, KeyView, NewKey, RotateKey

MOST_LISTED = 1000


class ApiKeys:
    def __init__(self, store: Store, callers: Callers) -> None:
        self._store = store
        self._callers = callers

    async def add(self, key: Key, user: str) -> None:
        """Let `user` use this key for everything; make the user where there is none. Adding it again
        changes nothing. Raises `InvalidKey` when its id belongs to another secret, or can't be used.
        """
        try:
            row = await self._store.transact(partial(_adopt, key, user))
        except IntegrityError:  # another gateway was a moment faster
            row = await self._store.transact(partial(_adopt, key, user))
        self._callers.forget()
        if row.revoked_s is not None:
            raise InvalidKey(f"the key {key.id} was revoked")
        if row.expires_s is not None and row.expires_s <= time.time():
            raise InvalidKey(f"the key {key.id} has expired")
        if not hmac.compare_digest(row.hash, key.hash):
            raise InvalidKey(f"the id {key.id} belongs to another key")

    async def create(self, caller: Caller, wanted: CreateKey) -> NewKey:
        """Raises `NotPermitted`, `NoSuchUser`, `StoreUnavailable`."""
        user = wanted.user or caller.user
        if user != caller.user and not caller.is_admin:
            raise NotPermitted("Only an admin makes keys for others")
        if not caller.may(*wanted.scopes):
            lacking = sorted(set(wanted.scopes) - caller.scopes)
            raise NotPermitted(
                f"Your key does not have {', '.join(lacking)}, so it can't give it away"
            )
        now_s = time.time()
        expires_s = None if wanted.lifetime_s is None else now_s + wanted.lifetime_s
        if not caller.outlasts(expires_s):
            left_s = int((caller.expires_s or now_s) - now_s)
            raise NotPermitted(
                f"Your key ends in {left_s} s, so a key that it makes has to end by then"
            )
        key = Key.new()
        row = await self._store.transact(partial(_create, key, user, wanted, now_s, expires_s))
        return NewKey(key=str(key), view=key_view(row))

    async def listed(self, caller: Caller, user: str | None) -> tuple[KeyView, ...]:
        """The newest first. An admin sees all keys, or those of `user`. Raises `NotPermitted`."""
        if user not in (None, caller.user) and not caller.is_admin:
            raise NotPermitted("Only an admin sees keys of others")
        whose = user or (None if caller.is_admin else caller.user)
        rows = await self._store.read(partial(_listed, whose))
        return tuple(key_view(row) for row in rows)

    async def used(self, caller: Caller) -> KeyView:
        """The key of the call itself. Raises `NoSuchKey` for one that the store has lost meanwhile."""
        return key_view(await self._store.read(partial(_own, caller, caller.key_id)))

    async def rotate(self, caller: Caller, key_id: str, wanted: RotateKey) -> NewKey:
        """A new key in the place of this one, which ends after the overlap.

        Raises `NoSuchKey`, `KeyHasEnded`, `NotPermitted` for a key that may do more than the caller's, or for longer.
        """
        new = Key.new()
        row = await self._store.transact(partial(_rotate, caller, key_id, new, wanted.overlap_s))
        self._callers.forget()
        return NewKey(key=str(new), view=key_view(row))

    async def revoke(self, caller: Caller, key_id: str) -> KeyView:
        """Refuse this key from now on; revoking it again changes nothing. Raises `NoSuchKey`."""
        row = await self._store.transact(partial(_revoke, caller, key_id))
        self._callers.forget()
        return key_view(row)


def _adopt(key: Key, user: str, session: Session) -> ApiKey:
    row = session.get(ApiKey, key.id)
    if row is None:
        now_s = time.time()
        account = session.get(User, user)
        if account is None:
            account = User(name=user, is_admin=user == LOCAL_USER, created_s=now_s)
            session.add(account)
            session.flush()
        row = first_key_row(account, key)
        row.created_s = now_s
        session.add(row)
    return row


def _create(
    key: Key,
    user: str,
    wanted: CreateKey,
    now_s: float,
    expires_s: float | None,
    session: Session,
) -> ApiKey:
    account = require_user(session, user)
    if KeyScope.ADMIN in wanted.scopes and not account.is_admin:
        raise NotPermitted(f"{user} is no admin, so no key of theirs can be")
    row = ApiKey(
        id=key.id,
        owner=user,
        name=wanted.name,
        hash=key.hash,
        scopes=sorted(set(wanted.scopes)),
        created_s=now_s,
        expires_s=expires_s,
    )
    session.add(row)
    return row


def _listed(user: str | None, session: Session) -> list[ApiKey]:
    query = select(ApiKey).order_by(col(ApiKey.created_s).desc()).limit(MOST_LISTED)
    return list(session.exec(query if user is None else query.where(col(ApiKey.owner) == user)))


def _rotate(caller: Caller, key_id: str, new: Key, overlap_s: float, session: Session) -> ApiKey:
    old = _own(caller, key_id, session)
    scopes = tuple(map(KeyScope, old.scopes))
    if old.id != caller.key_id and not (caller.may(*scopes) and caller.outlasts(old.expires_s)):
        raise NotPermitted(
            f"The key {old.id} may do more than yours, or for longer, so yours can't rotate it"
        )
    now_s = time.time()
    if old.revoked_s is not None or (old.expires_s is not None and old.expires_s <= now_s):
        raise KeyHasEnded(key_id)
    row = ApiKey(
        id=new.id,
        owner=old.owner,
        name=old.name,
        hash=new.hash,
        scopes=old.scopes,
        created_s=now_s,
        expires_s=old.expires_s,
    )
    session.add(row)
    if overlap_s:
        old.expires_s = min(now_s + overlap_s, old.expires_s or now_s + overlap_s)
    else:
        old.revoked_s = now_s
    return row


def _revoke(caller: Caller, key_id: str, session: Session) -> ApiKey:
    row = _own(caller, key_id, session)
    if row.revoked_s is None:
        row.revoked_s = time.time()
    return row


def _own(caller: Caller, key_id: str, session: Session) -> ApiKey:
    """Raises `NoSuchKey`, also for somebody else's."""
    row = session.get(ApiKey, key_id) if can_be_id(key_id) else None
    if row is None or not caller.viewer.owns(row.owner):
        raise NoSuchKey(key_id)
    return row
