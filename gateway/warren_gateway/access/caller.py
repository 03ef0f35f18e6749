"""Who calls: the user behind a key, with what the key is good for."""

from dataclasses import dataclass

from warren_gateway.store.tables import ApiKey, User
from warren_schemas.users.access import KeyScope


@dataclass(frozen=True, slots=True)
class Viewer:
    """Who looks: sees what is their own, or everything."""

    user: str
    sees_all: bool = False

    def owns(self, owner: str) -> bool:
        return self.sees_all or self.user == owner


@dataclass(frozen=True, slots=True)
class Caller:
    user: str
    key_id: str
    scopes: frozenset[KeyScope]
    expires_s: float | None = None
    """When the key ends, in Unix time; None for never."""
    requests_per_s: float | None = None
    """What the user may send for long; None: what everybody may."""

    @property
    def is_admin(self) -> bool:
        return KeyScope.ADMIN in self.scopes

    @property
    def viewer(self) -> Viewer:
        return Viewer(self.user, sees_all=self.is_admin)

    def may(self, *scopes: KeyScope) -> bool:
        return self.is_admin or self.scopes.issuperset(scopes)

    def outlasts(self, expires_s: float | None) -> bool:
        """Whether the key is good for as long as one that ends then."""
        return self.expires_s is None or (expires_s is not None and expires_s <= self.expires_s)


class NotIdentified(Exception):
    """No key, or one that is good for nothing; says why. Whoever did not show the whole key learns
    nothing about it."""


def caller_of(key: ApiKey, user: User, now_s: float) -> Caller:
    """Raises `NotIdentified` for a key that is no longer good."""
    if key.revoked_s is not None:
        raise NotIdentified(f"The API key {key.id} was revoked")
    if key.expires_s is not None and key.expires_s <= now_s:
        raise NotIdentified(f"The API key {key.id} has expired")
    if user.removed_s is not None:
        raise NotIdentified(f"The user {user.name} was removed")
    if user.disabled_s is not None:
        raise NotIdentified(f"The user {user.name} is disabled")
    scopes = frozenset(map(KeyScope, key.scopes))
    if not user.is_admin:
        scopes -= {KeyScope.ADMIN}
    own_per_s = user.limits.get("requests_per_s")
    return Caller(user.name, key.id, scopes, key.expires_s, own_per_s)
