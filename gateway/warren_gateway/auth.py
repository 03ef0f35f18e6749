"""API keys: who is calling.

A key reads `wk_<public id>_<secret>`. The public id finds the row; of the secret (256 random bits)
only a BLAKE2b hash is stored. It needs neither salt nor stretching: nobody can guess 256 bits.

Invariants
- A key is never logged, stored or sent; its public id may be.
- A secret is compared in constant time, also when the id is unknown.
- A revoked key is refused here at once, and by other gateways within `CACHE_S`.
- The key file is written before the row: a crash in between leaves a key that the next start adopts.
"""

import hashlib
import hmac
import re
import secrets
import time
from collections import OrderedDict
from dataclasses import dataclass
from functools import partial

from sqlalchemy.exc import IntegrityError
from sqlmodel import Session

from warren_gateway.store.store import Store
from warren_gateway.store.tables import ApiKey

LOCAL_OWNER = "local"
CACHE_S = 10.0
CACHE_SIZE = 1024

_PATTERN = re.compile(r"wk_([A-Za-z0-9]{4,32})_([A-Za-z0-9_-]{32,128})")
_NO_HASH = "0" * 64


class InvalidKey(ValueError):
    """A key that was given to adopt does not read like one, or was revoked."""


@dataclass(frozen=True, slots=True)
class Key:
    """A key in its two halves."""

    id: str
    secret: str

    @classmethod
    def new(cls) -> "Key":
        return cls(secrets.token_hex(6), secrets.token_urlsafe(32))

    @classmethod
    def parse(cls, text: str) -> "Key | None":
        """None when it does not read like a key."""
        match = _PATTERN.fullmatch(text.strip())
        return cls(match[1], match[2]) if match else None

    @property
    def hash(self) -> str:
        return hashlib.blake2b(
            self.secret.encode(), digest_size=32, person=b"warren-key"
        ).hexdigest()

    def __str__(self) -> str:
        """The whole key. Never format one into a log line."""
        return f"wk_{self.id}_{self.secret}"

    def __repr__(self) -> str:
        return f"Key({self.id})"


@dataclass(frozen=True, slots=True)
class _Known:
    """What the store said about a public id; None for nothing."""

    row: ApiKey | None
    until_s: float


class ApiKeys:
    """The owners behind keys, with a small cache before the store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._cache: OrderedDict[str, _Known] = OrderedDict()

    async def owner(self, text: str) -> str | None:
        """Who holds this key; None for a wrong one. Raises `StoreUnavailable`."""
        key = Key.parse(text)
        if key is None:
            return None
        row = await self._row(key.id)
        is_right = hmac.compare_digest(key.hash, row.hash if row else _NO_HASH)
        return row.owner if row and is_right and row.revoked_s is None else None

    async def add(self, key: Key, owner: str) -> None:
        """Let `owner` use this key. Adding it again changes nothing.

        Raises `InvalidKey` when its id belongs to another secret or was revoked.
        """
        try:
            row = await self._store.transact(partial(_add, key, owner))
        except IntegrityError:  # another gateway was a moment faster
            row = await self._store.transact(partial(_add, key, owner))
        self._cache.pop(key.id, None)
        if row.revoked_s is not None:
            raise InvalidKey(f"the key {key.id} was revoked")
        if not hmac.compare_digest(row.hash, key.hash):
            raise InvalidKey(f"the id {key.id} belongs to another key")

    async def revoke(self, key_id: str) -> None:
        """Refuse this key from now on."""
        await self._store.transact(partial(_revoke, key_id))
        self._cache.pop(key_id, None)

    async def _row(self, key_id: str) -> ApiKey | None:
        known = self._cache.get(key_id)
        if known is None or known.until_s < time.monotonic():
            row = await self._store.transact(lambda session: session.get(ApiKey, key_id))
            known = _Known(row, time.monotonic() + CACHE_S)
            self._cache[key_id] = known
        self._cache.move_to_end(key_id)
        if len(self._cache) > CACHE_SIZE:
            self._cache.popitem(last=False)
        return known.row


def _add(key: Key, owner: str, session: Session) -> ApiKey:
    row = session.get(ApiKey, key.id)
    if row is None:
        row = ApiKey(id=key.id, owner=owner, hash=key.hash, created_s=time.time())
        session.add(row)
    return row


def _revoke(key_id: str, session: Session) -> None:
    row = session.get(ApiKey, key_id)
    if row is not None and row.revoked_s is None:
        row.revoked_s = time.time()
