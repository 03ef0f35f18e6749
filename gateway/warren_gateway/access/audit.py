"""The audit log: who asked for what to be changed, and what they were answered.

Invariant: a request that may change something is noted before it is served. One without a status was cut
off by the end of its gateway, and may or may not have been done.
"""

import logging
import time
from functools import partial

from sqlmodel import Session, col, delete, select

from warren_gateway.access.caller import Caller
from warren_gateway.store.store import Store, StoreUnavailable
from warren_gateway.store.tables import AuditRow
from warren_schemas.users.access import AuditEntry

KEPT = 100_000
"""Newest entries that are kept."""
TIDIED_EVERY = 1000

log = logging.getLogger(__name__)


class Audit:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def begin(self, caller: Caller, action: str, path: str) -> int:
        """Note a request; its number. Raises `StoreUnavailable`, and then nothing may be done."""
        return await self._store.transact(partial(_begin, caller, action, path))

    async def end(self, number: int, status: int) -> None:
        """Note what was answered."""
        try:
            await self._store.transact(partial(_end, number, status))
        except StoreUnavailable as error:
            log.warning(
                "the answer %d to request %d is not in the audit log: %s", status, number, error
            )

    async def newest(self, user: str | None, limit: int) -> tuple[AuditEntry, ...]:
        """The newest first; of one user, or of all. Raises `StoreUnavailable`."""
        rows = await self._store.read(partial(_newest, user, limit))
        return tuple(AuditEntry.model_validate(row.model_dump()) for row in rows)


def _begin(caller: Caller, action: str, path: str, session: Session) -> int:
    row = AuditRow(at_s=time.time(), user=caller.user, key=caller.key_id, action=action, path=path)
    session.add(row)
    session.flush()
    assert row.id is not None
    if row.id % TIDIED_EVERY == 0:
        session.exec(delete(AuditRow).where(col(AuditRow.id) <= row.id - KEPT))
    return row.id


def _end(number: int, status: int, session: Session) -> None:
    row = session.get(AuditRow, number)
    if row is not None:
        row.status = status


def _newest(user: str | None, limit: int, session: Session) -> list[AuditRow]:
    query = select(AuditRow).order_by(col(AuditRow.id).desc()).limit(limit)
    return list(session.exec(query if user is None else query.where(col(AuditRow.user) == user)))
