"""An API key: what it reads like, and what is stored of it.

A key reads `wk_<public id>_<secret>`. The public id finds the row; of the secret (256 random bits)
only a BLAKE2b hash is stored. Tinker's clients take no key that doesn't begin with `tml-`, so each reads the same with
that before it. It needs neither salt nor stretching: nobody can guess 256 bits.

Invariant: a key is never logged, stored or sent but to whom it was made for; its public id may be.
"""

import hashlib
import re
import secrets
from dataclasses import dataclass

_PATTERN = re.compile(r"(?:tml-)?wk_([A-Za-z0-9]{4,32})_([A-Za-z0-9_-]{32,128})")


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


def id_of(text: str) -> str:
    """The public id of a key that is named by it, or was given whole."""
    key = Key.parse(text)
    return text if key is None else key.id


def without_secrets(text: str) -> str:
    """A text that may be stored or shown: of a whole key in it only the id is left."""
    return _PATTERN.sub(r"wk_\1_…", text)
