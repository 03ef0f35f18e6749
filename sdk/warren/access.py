"""Users, API keys and the audit log of a gateway: `client.access`.

A new key is in one answer and nowhere else: what makes one is tried once. When its answer is lost, the
key may have been made, and `keys()` shows whether it was.
"""

from collections.abc import Sequence
from typing import TypeVar
from urllib.parse import quote, urlencode

from pydantic import BaseModel, ValidationError

from warren.connection.transport import Transport
from warren.errors import ConfigurationError
from warren.pending import pending
from warren_schemas.http import WorkerView
from warren_schemas.text.explain import explain
from warren_schemas.users.access import (
    USER_SCOPES,
    AddUser,
    AuditEntry,
    AuditList,
    CreateKey,
    Identity,
    KeyList,
    KeyScope,
    KeyView,
    NewKey,
    RotateKey,
    ShareList,
    ShareRun,
    ShareView,
    UserAdded,
    UserList,
    UserView,
)
from warren_schemas.users.limits import Limits, UserDetails
from warren_schemas.users.usage import UsageBy, UsageList, UsageView

BodyT = TypeVar("BodyT", bound=BaseModel)
NAMES = "Names of users are small letters, digits, `.`, `-` and `_`, up to 32; those of keys plain text."


class Access:
    """What an admin does with all users and keys, and everybody with their own keys."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    @pending
    async def whoami(self) -> Identity:
        """Whom the key of this client belongs to, and what it may do."""
        return await self._transport.get("/v1/whoami", Identity)

    @pending
    async def users(self) -> tuple[UserView, ...]:
        """By name; for admins."""
        return (await self._transport.get("/v1/users", UserList)).users

    @pending
    async def add_user(self, name: str, *, is_admin: bool = False) -> UserAdded:
        """A user with a first key, which is shown this once; for admins. Raises `ConfigurationError`."""
        body = _body(AddUser, name=name, is_admin=is_admin)
        return await self._transport.post_once("/v1/users", UserAdded, body)

    @pending
    async def disable_user(self, name: str) -> UserView:
        """Refuse all keys of this user; their runs go on. For admins."""
        return await self._transport.post(_user(name, "disable"), UserView)

    @pending
    async def enable_user(self, name: str) -> UserView:
        """Take the keys of a disabled user again; for admins."""
        return await self._transport.post(_user(name, "enable"), UserView)

    @pending
    async def remove_user(self, name: str) -> UserView:
        """Revoke all keys of a user whose runs are over; nobody gets the name again. For admins."""
        return await self._transport.post_once(_user(name, "remove"), UserView)

    @pending
    async def keys(self, *, user: str | None = None) -> tuple[KeyView, ...]:
        """Yours, newest first; for admins those of all users, or of one."""
        query = "" if user is None else f"?{urlencode({'user': user})}"
        return (await self._transport.get(f"/v1/keys{query}", KeyList)).keys

    @pending
    async def create_key(
        self,
        name: str = "key",
        *,
        scopes: Sequence[KeyScope | str] = USER_SCOPES,
        lifetime_s: float | None = None,
        user: str | None = None,
    ) -> NewKey:
        """A key with no more scopes than this client's own; `user` is for admins.

        Raises `ConfigurationError` for a scope or a name that can't be.
        """
        body = _body(CreateKey, name=name, scopes=tuple(scopes), lifetime_s=lifetime_s, user=user)
        return await self._transport.post_once("/v1/keys", NewKey, body)

    @pending
    async def rotate_key(self, key: str, *, overlap_s: float = 0.0) -> NewKey:
        """A key in the place of the one with this id, which ends after the overlap."""
        body = _body(RotateKey, overlap_s=overlap_s)
        return await self._transport.post_once(f"{_key(key)}/rotate", NewKey, body)

    @pending
    async def revoke_key(self, key: str) -> KeyView:
        """Refuse the key with this id from now on; open streams of it end within seconds."""
        return await self._transport.post(f"{_key(key)}/revoke", KeyView)

    @pending
    async def user(self, name: str) -> UserDetails:
        """A user with their limits: yourself, or for admins anybody."""
        return await self._transport.get(f"/v1/users/{quote(name, safe='')}", UserDetails)

    @pending
    async def set_limits(self, name: str, **limits: float | None) -> UserDetails:
        """Set some of the `Limits` of a user, `gpu_weight=2` for example; None is the gateway's default
        again. For admins. Raises `ConfigurationError`."""
        body = _body(Limits, **limits)
        return await self._transport.post(_user(name, "limits"), UserDetails, body)

    @pending
    async def usage(
        self, *, by: UsageBy = "user", user: str | None = None, since_s: float = 0.0
    ) -> tuple[UsageView, ...]:
        """What was used since the day of this Unix time: by you; for admins by all users, or by one."""
        query = urlencode({"by": by, "since_s": since_s} | ({} if user is None else {"user": user}))
        return (await self._transport.get(f"/v1/usage?{query}", UsageList)).usage

    @pending
    async def share(self, run: str, user: str | None = None) -> ShareView:
        """Let a user read this run and use what it made; None: everybody with a key."""
        return await self._transport.post(_run(run, "share"), ShareView, _body(ShareRun, user=user))

    @pending
    async def unshare(self, run: str, user: str | None = None) -> tuple[ShareView, ...]:
        """Take that back; with whom the run is shared from now on. None: with everybody no longer."""
        body = _body(ShareRun, user=user)
        return (await self._transport.post(_run(run, "unshare"), ShareList, body)).shares

    @pending
    async def shares(self) -> tuple[ShareView, ...]:
        """What you share and what is shared with you: runs, data sets, adapters, base models; for admins all."""
        return (await self._transport.get("/v1/shares", ShareList)).shares

    @pending
    async def drain_worker(self, worker: str, *, undo: bool = False) -> WorkerView:
        """Drain a worker: it takes no new work and gives its models away; `undo` ends that (for admins)."""
        verb = "undrain" if undo else "drain"
        return await self._transport.post(
            f"/v1/workers/{quote(worker, safe='')}/{verb}", WorkerView
        )

    @pending
    async def audit(self, *, user: str | None = None, limit: int = 100) -> tuple[AuditEntry, ...]:
        """Who changed what, newest first; for admins."""
        query = urlencode({"limit": limit} | ({} if user is None else {"user": user}))
        return (await self._transport.get(f"/v1/audit?{query}", AuditList)).entries


def _body(model: type[BodyT], **fields: object) -> BodyT:
    """Raises `ConfigurationError`, one line for each thing wrong."""
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        lines = explain(error, model)
        raise ConfigurationError(
            "This can't be asked of a gateway",
            details=lines,
            hint=NAMES if "name" in fields else None,
        ) from error


def _user(name: str, action: str) -> str:
    return f"/v1/users/{quote(name, safe='')}/{action}"


def _run(run: str, action: str) -> str:
    return f"/v1/runs/{quote(run, safe='')}/{action}"


def _key(key: str) -> str:
    return f"/v1/keys/{quote(key, safe='')}"
