"""From the key of a request to its caller, with a small cache before the store.

Invariants
- A secret is compared in constant time, also when the id is unknown.
- A key that was revoked or has expired, or whose user was disabled, is refused here at once, and by other
  gateways within `CACHE_S`; what goes on for it (streams, sockets) ends within `LOOK_S`. So does what goes on
  about a run that is no longer shared with its user.
- However many wrong keys come, they push no right one out of the cache.
- A store that is away ends nothing that was begun.
"""

import asyncio
import contextlib
import hmac
import logging
import time
from collections import Counter, OrderedDict
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from sqlmodel import Session

from warren_gateway.access.caller import Caller, NotIdentified, caller_of
from warren_gateway.access.key import Key
from warren_gateway.access.key_lookup import KeyLookup, Rows
from warren_gateway.access.shared_runs import is_hidden
from warren_gateway.store.store import Store, StoreUnavailable
from warren_gateway.store.tables import ApiKey, User

CACHE_S = 5.0
CACHE_SIZE = 1024
LOOK_S = 5.0

UNKNOWN = "This API key is not known here"
_NO_HASH = "0" * 64

_Watched = tuple[str, str | None]
"""The id of a key, and the run that something goes on about."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Known:
    """What the store said about a key; None for nothing."""

    rows: Rows | None
    until_s: float


class Callers:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._lookup = KeyLookup(store)
        self._right: OrderedDict[Key, _Known] = OrderedDict()
        self._wrong: OrderedDict[Key, _Known] = OrderedDict()
        self._watched = Counter[_Watched]()
        self._lost: dict[_Watched, asyncio.Event] = {}
        self._changed = asyncio.Event()

    async def identify(self, text: str) -> Caller:
        """Who holds this key. Raises `NotIdentified`, `StoreUnavailable`."""
        key = Key.parse(text)
        if key is None:
            raise NotIdentified(UNKNOWN)
        rows = await self._rows(key)
        if not rows or not _is_right(key, rows):
            raise NotIdentified(UNKNOWN)
        return caller_of(*rows, time.time())

    def forget(self) -> None:
        """Ask the store again: keys or users have changed."""
        self._right.clear()
        self._wrong.clear()
        self._changed.set()

    @contextmanager
    def watch(self, caller: Caller, run: str | None = None) -> Generator[asyncio.Event]:
        """An event that is set once this key is no longer good, or may no longer read this run; `run` has
        to go on meanwhile."""
        watched = (caller.key_id, run)
        self._watched[watched] += 1
        try:
            yield self._lost.setdefault(watched, asyncio.Event())
        finally:
            self._watched[watched] -= 1
            if not self._watched[watched]:
                del self._watched[watched], self._lost[watched]

    async def run(self) -> None:
        """Look after the keys for which something goes on: no store tells of what another gateway does."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self._changed.wait()
            self._changed.clear()
            if self._watched:
                await self.look()

    async def look(self) -> None:
        """Find out for whom nothing may go on any more."""
        try:
            lost = await self._store.read(partial(_no_longer_good, tuple(self._watched)))
        except StoreUnavailable as error:
            log.warning("whether keys are still good is not known: %s", error)
            return
        for watched in lost & self._lost.keys():
            self._lost[watched].set()

    async def _rows(self, key: Key) -> Rows | None:
        known = self._right.get(key) or self._wrong.get(key)
        if known is None or known.until_s < time.monotonic():
            rows = await self._lookup.find(key)
            known = _Known(rows, time.monotonic() + CACHE_S)
            self._right.pop(key, None)
        cache = self._right if _is_right(key, known.rows) else self._wrong
        cache[key] = known
        cache.move_to_end(key)
        if len(cache) > CACHE_SIZE:
            cache.popitem(last=False)
        return known.rows


def _is_right(key: Key, rows: Rows | None) -> bool:
    return hmac.compare_digest(key.hash, rows[0].hash if rows else _NO_HASH)


def _no_longer_good(watched: tuple[_Watched, ...], session: Session) -> set[_Watched]:
    return {(key, run) for key, run in watched if not _is_good(session, key, run)}


def _is_good(session: Session, key: str, run: str | None) -> bool:
    row = session.get(ApiKey, key)
    user = session.get(User, row.owner) if row else None
    if row is None or user is None:
        return False
    try:
        caller = caller_of(row, user, time.time())
    except NotIdentified:
        return False
    return run is None or not is_hidden(session, caller.viewer, run)
