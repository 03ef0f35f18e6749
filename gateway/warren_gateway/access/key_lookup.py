"""Finding keys in the store, together: those that are asked for while a look goes on share the next one.

Invariants
- One look at a time, however many ask: a flood of wrong keys costs the store no more than one look after
  another, and a right key waits for two at most.
- Whoever stops waiting stops nobody else's look.
"""

import asyncio
import hmac
import time
from collections.abc import Sequence
from functools import partial

from sqlalchemy import update
from sqlmodel import Session, col, select

from warren_gateway.access.key import Key
from warren_gateway.store.store import Store
from warren_gateway.store.tables import ApiKey, User

TOUCH_S = 60.0
"""How exact the last use of a key is known."""
MOST_AT_ONCE = 500
"""Ids in one query."""

Rows = tuple[ApiKey, User]


class KeyLookup:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._asked: dict[Key, asyncio.Future[Rows | None]] = {}
        self._looking: asyncio.Task[None] | None = None

    async def find(self, key: Key) -> Rows | None:
        """The row of this public id with its user. Raises `StoreUnavailable`."""
        found = self._asked.get(key)
        if found is None:
            found = self._asked[key] = asyncio.get_running_loop().create_future()
        if self._looking is None:
            self._looking = asyncio.create_task(self._look(), name="look up keys")
        return await asyncio.shield(found)

    async def _look(self) -> None:
        """Until nobody asks any more."""
        try:
            while self._asked:
                asked, self._asked = self._asked, {}
                await self._answer(asked)
        finally:
            self._looking = None

    async def _answer(self, asked: dict[Key, asyncio.Future[Rows | None]]) -> None:
        try:
            rows = await self._store.read(partial(_find_all, tuple(asked)))
            if used := [key for key in asked if _is_to_be_noted(key, rows[key])]:
                await self._store.transact(partial(_note_uses, used))
        except BaseException as error:
            for future in asked.values():
                future.set_exception(error)
                future.exception()  # whoever asked may have gone
            if not isinstance(error, Exception):
                raise
        else:
            for key, future in asked.items():
                future.set_result(rows[key])


def _find_all(keys: Sequence[Key], session: Session) -> dict[Key, Rows | None]:
    found = dict[str, Rows]()
    for start in range(0, len(keys), MOST_AT_ONCE):
        ids = {key.id for key in keys[start : start + MOST_AT_ONCE]}
        query = select(ApiKey, User).join(User, col(User.name) == col(ApiKey.owner))
        found |= {
            row.id: (row, user) for row, user in session.exec(query.where(col(ApiKey.id).in_(ids)))
        }
    return {key: found.get(key.id) for key in keys}


def _is_to_be_noted(key: Key, rows: Rows | None) -> bool:
    """Once it has been shown whole."""
    if rows is None or not hmac.compare_digest(rows[0].hash, key.hash):
        return False
    return time.time() - (rows[0].last_used_s or 0.0) >= TOUCH_S


def _note_uses(keys: Sequence[Key], session: Session) -> None:
    ids = {key.id for key in keys}
    session.exec(update(ApiKey).where(col(ApiKey.id).in_(ids)).values(last_used_s=time.time()))
