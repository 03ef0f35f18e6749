"""Rows of users and keys, and how they are told."""

from sqlmodel import Session

from warren_gateway.access.key import Key
from warren_gateway.access.problems import NoSuchUser
from warren_gateway.store.tables import ApiKey, User
from warren_schemas.users.access import USER_SCOPES, KeyScope, KeyView

LOCAL_USER = "local"
"""Whoever holds the key file of the gateway's machine: an admin that is always there."""
ALL_SCOPES = tuple(KeyScope)


def require_user(session: Session, name: str) -> User:
    """Raises `NoSuchUser`."""
    user = session.get(User, name)
    if user is None or user.removed_s is not None:
        raise NoSuchUser(f"There is no user {name}")
    return user


def key_view(row: ApiKey) -> KeyView:
    return KeyView(
        id=row.id,
        user=row.owner,
        name=row.name,
        scopes=tuple(map(KeyScope, row.scopes)),
        created_s=row.created_s,
        expires_s=row.expires_s,
        last_used_s=row.last_used_s,
        revoked_s=row.revoked_s,
    )


def first_key_row(user: User, key: Key) -> ApiKey:
    """What a user who was just added begins with."""
    scopes = ALL_SCOPES if user.is_admin else USER_SCOPES
    return ApiKey(
        id=key.id,
        owner=user.name,
        name="first key",
        hash=key.hash,
        scopes=list(scopes),
        created_s=user.created_s,
    )
