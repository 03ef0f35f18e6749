"""What Tinker's clients ask of their sessions, use and storage, and read of them."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import AwareDatetime, Field, JsonValue

from warren_schemas.base import Frozen, Listed
from warren_schemas.tinker.requests import Id, Lenient, Metadata

GIGABYTE = 1_000_000_000
MOST_SESSIONS = 200
ProjectId = Annotated[str, Field(min_length=1, max_length=256)]


class ProjectNamed(Lenient):
    project_id: ProjectId


class SearchOwner(Lenient):
    type: Literal["own", "accessible", "user"] = "own"
    owner_urns: Listed[Id] = ()


class SearchedStatus(Lenient):
    type: Annotated[str, Field(max_length=64)]
    reasons: Listed[Annotated[str, Field(max_length=64)]] | None = None


class SearchCursor(Frozen):
    """Where the next page begins."""

    last_created_at: AwareDatetime
    last_session_id: Id


class SearchSessions(Lenient):
    """What is not told restricts nothing."""

    session_id: Id | None = None
    project_ids: Listed[ProjectId] | None = None
    user_metadata: Metadata = Field(default_factory=dict)
    display_name: Annotated[str, Field(max_length=256)] | None = None
    owner: SearchOwner = SearchOwner()
    statuses: Listed[SearchedStatus] | None = None
    limit: Annotated[int, Field(ge=1, le=MOST_SESSIONS)] = 50
    cursor: SearchCursor | None = None


class SessionActive(Frozen):
    type: Literal["active"] = "active"


class FinishReason(Frozen):
    type: str


class SessionFinished(Frozen):
    type: Literal["client_finished"] = "client_finished"
    reason: FinishReason


class SessionSummary(Frozen):
    session_id: str
    created_at: datetime
    owner: str
    project_id: str
    """Empty where it belongs to none."""
    status: SessionActive | SessionFinished | None = None
    """None: its client was not heard of for a while, and never said that it was done."""
    checkpoints_count: int
    display_name: str | None = None
    user_metadata: dict[str, JsonValue] | None = None
    checkpoint_storage_bytes: int


class SessionsFound(Frozen):
    """Newest first."""

    sessions: tuple[SessionSummary, ...]
    next_cursor: SearchCursor | None = None


class UsageAsked(Lenient):
    starting_on: AwareDatetime
    ending_before: AwareDatetime


class TokensTrained(Frozen):
    type: Literal["training"] = "training"
    token_count: int


class PromptTokens(Frozen):
    """Of what was sampled from."""

    type: Literal["sampling_prefill"] = "sampling_prefill"
    cached: Literal[False] = False
    token_count: int


class TokensSampled(Frozen):
    type: Literal["sampling_sample"] = "sampling_sample"
    token_count: int


TokensUsed = TokensTrained | PromptTokens | TokensSampled


class UsageEvent(Frozen):
    """What a training run has used in a time, or a session's samplers. Nothing here costs money."""

    bucket_start: datetime
    bucket_end: datetime
    base_model: str | None = None
    user_id: str
    user_name: str
    session_id: str | None = None
    project_id: str | None = None
    event_info: TokensUsed


class UsageEvents(Frozen):
    data: tuple[UsageEvent, ...]


class StorageAsked(Lenient):
    project_id: ProjectId | None = None


class StorageUsed(Frozen):
    project_id: str | None = None
    org_user_urn: str
    user_name: str
    checkpoint_count: int
    size_bytes: int
    size_gigabytes: float


class StorageAnswer(Frozen):
    data: tuple[StorageUsed, ...]


class AuditAsked(Lenient):
    event_type: Literal["all", "checkpoints", "projects", "teams", "organizations"] = "all"
    day: Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\d$")] | None = None
    """UTC; None: today."""


class AuditDetails(Frozen):
    user: str
    key: str
    path: str
    status: int | None = None


class AuditEvent(Frozen):
    timestamp: datetime
    event: str
    event_details: AuditDetails


class AuditAnswer(Frozen):
    """By time."""

    entries: tuple[AuditEvent, ...]


class ArchiveUrl(Frozen):
    """Of a tar with all files of a checkpoint; it needs no key."""

    url: str
    expires: datetime


class TraceExport(Frozen):
    """A timeline in the JSON that trace viewers read, behind a URL that needs no key."""

    status: Literal["ready"] = "ready"
    url: str


class DownloadUrls(Frozen):
    """Of each file of a checkpoint, one that needs no key."""

    urls: dict[str, str]
    expires: datetime
