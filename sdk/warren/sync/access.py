"""`client.access` without `await`; see `warren.access`."""

from collections.abc import Coroutine, Sequence
from typing import TypeVar

from warren import access as asynchronous
from warren.connection.loop_thread import LoopThread
from warren_schemas.http import WorkerView
from warren_schemas.users.access import (
    USER_SCOPES,
    AuditEntry,
    Identity,
    KeyScope,
    KeyView,
    NewKey,
    ShareView,
    UserAdded,
    UserView,
)
from warren_schemas.users.limits import UserDetails
from warren_schemas.users.usage import UsageBy, UsageView

T = TypeVar("T")


class Access:
    def __init__(self, thread: LoopThread, access: asynchronous.Access) -> None:
        self._thread = thread
        self._access = access

    def whoami(self) -> Identity:
        """Whom the key of this client belongs to, and what it may do."""
        return self._call(self._access.whoami())

    def users(self) -> tuple[UserView, ...]:
        """By name; for admins."""
        return self._call(self._access.users())

    def add_user(self, name: str, *, is_admin: bool = False) -> UserAdded:
        """A user with a first key, which is shown this once; for admins."""
        return self._call(self._access.add_user(name, is_admin=is_admin))

    def disable_user(self, name: str) -> UserView:
        """Refuse all keys of this user; their runs go on. For admins."""
        return self._call(self._access.disable_user(name))

    def enable_user(self, name: str) -> UserView:
        """Take the keys of a disabled user again; for admins."""
        return self._call(self._access.enable_user(name))

    def remove_user(self, name: str) -> UserView:
        """Revoke all keys of a user whose runs are over; nobody gets the name again. For admins."""
        return self._call(self._access.remove_user(name))

    def keys(self, *, user: str | None = None) -> tuple[KeyView, ...]:
        """Yours, newest first; for admins those of all users, or of one."""
        return self._call(self._access.keys(user=user))

    def create_key(
        self,
        name: str = "key",
        *,
        scopes: Sequence[KeyScope | str] = USER_SCOPES,
        lifetime_s: float | None = None,
        user: str | None = None,
    ) -> NewKey:
        """A key with no more scopes than this client's own; `user` is for admins."""
        creating = self._access.create_key(name, scopes=scopes, lifetime_s=lifetime_s, user=user)
        return self._call(creating)

    def rotate_key(self, key: str, *, overlap_s: float = 0.0) -> NewKey:
        """A key in the place of the one with this id, which ends after the overlap."""
        return self._call(self._access.rotate_key(key, overlap_s=overlap_s))

    def revoke_key(self, key: str) -> KeyView:
        """Refuse the key with this id from now on; open streams of it end within seconds."""
        return self._call(self._access.revoke_key(key))

    def user(self, name: str) -> UserDetails:
        """A user with their limits: yourself, or for admins anybody."""
        return self._call(self._access.user(name))

    def set_limits(self, name: str, **limits: float | None) -> UserDetails:
        """Set some of the `Limits` of a user; None is the gateway's default again. For admins."""
        return self._call(self._access.set_limits(name, **limits))

    def usage(
        self, *, by: UsageBy = "user", user: str | None = None, since_s: float = 0.0
    ) -> tuple[UsageView, ...]:
        """What was used since the day of this Unix time: by you; for admins by all users, or by one."""
        return self._call(self._access.usage(by=by, user=user, since_s=since_s))

    def share(self, run: str, user: str | None = None) -> ShareView:
        """Let a user read this run and use what it made; None: everybody with a key."""
        return self._call(self._access.share(run, user))

    def unshare(self, run: str, user: str | None = None) -> tuple[ShareView, ...]:
        """Take that back; with whom the run is shared from now on. None: with everybody no longer."""
        return self._call(self._access.unshare(run, user))

    def shares(self) -> tuple[ShareView, ...]:
        """What you share and what is shared with you: runs, data sets, adapters, base models; for admins all."""
        return self._call(self._access.shares())

    def drain_worker(self, worker: str, *, undo: bool = False) -> WorkerView:
        """Drain a worker: it takes no new work and gives its models away; `undo` ends that; for admins."""
        return self._call(self._access.drain_worker(worker, undo=undo))

    def audit(self, *, user: str | None = None, limit: int = 100) -> tuple[AuditEntry, ...]:
        """Who changed what, newest first; for admins."""
        return self._call(self._access.audit(user=user, limit=limit))

    def _call(self, work: Coroutine[object, None, T]) -> T:
        return self._thread.call(work)
