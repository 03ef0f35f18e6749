"""Who may do what: users, API keys and their scopes, as the HTTP API has them.

`__all__` is what users of the SDK hold; `warren` exports it as it is.
"""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from warren_schemas.base import Frozen, Listed
from warren_schemas.config import NonNegativeInt
from warren_schemas.ids import RunId

__all__ = [
    "AuditEntry",
    "Identity",
    "KeyScope",
    "KeyView",
    "NewKey",
    "ShareKind",
    "ShareView",
    "UserView",
]

UserName = Annotated[str, Field(min_length=1, max_length=32, pattern=r"^[a-z0-9][a-z0-9._-]*$")]
"""Small letters, digits, dots, dashes and underscores: it is part of queues' names."""
KeyName = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[ -~]+$")]

MIN_KEY_S = 60.0
"""Below it a key has expired before anybody can use it."""
MAX_KEY_S = 10 * 365 * 86_400


class KeyScope(StrEnum):
    """What a key is good for. No scope includes another one, but `admin`, which includes them all."""

    ADMIN = "admin"
    """Everything, of every user; only admins' keys may have it."""
    SUBMIT = "submit"
    """Submit, cancel, delete and share runs; make and revoke keys; settle dead letters."""
    READ = "read"
    """See runs with all that they produce, workers, queues and budgets."""
    ENV_WORKER = "env-worker"
    """Connect env workers of one's own."""
    INFER = "infer"
    """Ask models and policies."""


USER_SCOPES = tuple(scope for scope in KeyScope if scope is not KeyScope.ADMIN)
"""What a key has that was asked for without scopes."""


class UserView(Frozen):
    name: str
    is_admin: bool
    created_s: float
    disabled_s: float | None = None
    """Since when the gateway refuses all keys of this user; null while it takes them."""
    n_keys: NonNegativeInt = 0
    """Keys that can be used."""
    n_active_runs: NonNegativeInt = 0
    """Runs that are not over."""


class UserList(Frozen):
    users: tuple[UserView, ...]
    """By name."""


class AddUser(Frozen):
    name: UserName
    is_admin: bool = False
    """Whether keys of this user may have the scope `admin`."""


class KeyView(Frozen):
    id: str
    """The public half: it may be shown and logged."""
    user: str
    name: str
    """What its user calls it."""
    scopes: tuple[KeyScope, ...]
    created_s: float
    expires_s: float | None = None
    """Null: it doesn't expire."""
    last_used_s: float | None = None
    """To the minute; null: never."""
    revoked_s: float | None = None


class KeyList(Frozen):
    keys: tuple[KeyView, ...]
    """Newest first."""


class CreateKey(Frozen):
    name: KeyName = "key"
    scopes: Annotated[Listed[KeyScope], Field(min_length=1, max_length=len(KeyScope))] = USER_SCOPES
    """No more than the key has that asks."""
    lifetime_s: Annotated[float, Field(ge=MIN_KEY_S, le=MAX_KEY_S)] | None = None
    """Null: it doesn't expire."""
    user: UserName | None = None
    """Whose key it is, for an admin who makes one for somebody; null: the caller's own."""


class RotateKey(Frozen):
    overlap_s: Annotated[float, Field(ge=0, le=30 * 86_400)] = 0.0
    """How long the old key is good for beside the new one."""


class NewKey(Frozen):
    """A key that was just made."""

    key: str
    """The whole key: shown this once, and stored nowhere."""
    view: KeyView


class UserAdded(Frozen):
    user: UserView
    first_key: NewKey


class Identity(Frozen):
    """Who the gateway takes the caller for."""

    user: str
    is_admin: bool
    key: KeyView


class ShareRun(Frozen):
    user: UserName | None = None
    """With whom; null: with everybody who has a key."""


class ShareKind(StrEnum):
    RUN = "run"
    DATASET = "dataset"
    ADAPTER = "adapter"
    BASE_MODEL = "base_model"


class ShareView(Frozen):
    """Somebody may read, or use, what is not theirs."""

    kind: ShareKind = ShareKind.RUN
    run: RunId | None = None
    """Its id, where it is a run."""
    name: str
    """Of the run, or of what was uploaded, all its versions."""
    owner: str
    user: str | None
    """With whom it is shared; null: with everybody."""
    created_s: float


class ShareList(Frozen):
    shares: tuple[ShareView, ...]
    """Runs, data sets, adapters, base models; of each kind the newest first."""


class AuditEntry(Frozen):
    """One request that was to change something."""

    id: NonNegativeInt
    at_s: float
    user: str
    key: str
    """Id of the key that was used."""
    action: str
    """Name of the route, for example `submit_run`."""
    path: str
    status: NonNegativeInt | None = None
    """What was answered; null: the gateway died over it, and it may or may not have been done."""


class AuditList(Frozen):
    entries: tuple[AuditEntry, ...]
    """Newest first."""
