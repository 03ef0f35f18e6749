"""What the sessions of a user are, and what they have used and stored, as the protocol's clients ask for it.

Invariant: a user sees their own; an admin sees what all have used and stored, but nobody's sessions.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from sqlalchemy import ColumnElement
from sqlmodel import Session, col, func, select

from warren_gateway.access.caller import Viewer
from warren_gateway.store.store import Store
from warren_gateway.store.tables import (
    AuditRow,
    Checkpoint,
    Model,
    Run,
    SamplingUse,
    SnapshotRow,
    TinkerSession,
    UsageRow,
)
from warren_gateway.tinker.paths import keys_of, name_of, session_of
from warren_gateway.trainable.saved import is_kept
from warren_gateway.usage.counting import DAY_S
from warren_gateway.usage.sampled import count_uncounted
from warren_schemas.events import RunState
from warren_schemas.tinker.account import (
    GIGABYTE,
    PromptTokens,
    StorageUsed,
    TokensSampled,
    TokensTrained,
    TokensUsed,
    UsageEvent,
)

MOST_LISTED = 10_000
_OVER = [state for state in RunState if state.is_final]


class TooMany(ValueError):
    """More than can be listed at once; says what to ask for."""


class Accounts:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def used(self, viewer: Viewer, begin_s: float, end_s: float) -> list[UsageEvent]:
        """By days, of the sessions of the protocol's clients and their runs. Raises `TooMany`, and `StoreUnavailable`, as the others do."""
        await self._store.transact(count_uncounted)
        return await self._store.read(partial(_used, viewer, begin_s, end_s))

    async def stored(self, viewer: Viewer, project: str | None) -> list[StorageUsed]:
        """By owner and project, or of one project."""
        return await self._store.read(partial(_stored, viewer, project))

    async def audited(self, begin_s: float, end_s: float, about: str | None) -> list[AuditRow]:
        """What all users asked to be changed, by time: all of it, or what has this in its action. Raises `TooMany`."""
        return await self._store.read(partial(_audited, begin_s, end_s, about))


@dataclass(slots=True)
class Stored:
    """What a session's runs keep."""

    owner: str
    n: int = 0
    size_bytes: int = 0


def stored_by_session(
    session: Session, viewer: Viewer, only: Sequence[str] | None = None
) -> dict[str, Stored]:
    """Of all sessions that keep something, or of `only` these: what their clients saved, as it is listed for them."""
    found = dict[str, Stored]()
    for table in (Checkpoint, SnapshotRow):
        size = func.coalesce(func.sum(col(table.size_bytes)), 0)
        query = (
            select(Run.idempotency_key, Run.owner, func.count(), size)
            .join(Model, col(Model.run_id) == col(Run.id))
            .join(table, col(table.model_id) == col(Model.id))
            .where(col(Run.idempotency_key).startswith(keys_of()), is_kept(table))
            .group_by(col(Run.id))
        )
        if table is Checkpoint:
            query = query.where(col(Checkpoint.is_automatic).is_(False) | col(Run.state).in_(_OVER))
        if not viewer.sees_all:
            query = query.where(col(Run.owner) == viewer.user)
        for key, owner, n, size_bytes in session.exec(query):
            name = session_of(name_of(key)) or ""
            if only is None or name in only:
                stored = found.setdefault(name, Stored(owner))
                stored.n, stored.size_bytes = stored.n + n, stored.size_bytes + int(size_bytes)
    return found


def _stored(viewer: Viewer, project: str | None, session: Session) -> list[StorageUsed]:
    by_session = stored_by_session(session, viewer)
    projects = _projects(session, by_session)
    sums = dict[tuple[str, str | None], Stored]()
    for name, stored in by_session.items():
        if project in (None, projects.get(name)):
            key = (stored.owner, projects.get(name))
            summed = sums.setdefault(key, Stored(stored.owner))
            summed.n, summed.size_bytes = summed.n + stored.n, summed.size_bytes + stored.size_bytes
    return [_storage(owner, of_project, one) for (owner, of_project), one in sums.items()]


def _storage(owner: str, project: str | None, stored: Stored) -> StorageUsed:
    return StorageUsed(
        project_id=project,
        org_user_urn=urn(owner),
        user_name=owner,
        checkpoint_count=stored.n,
        size_bytes=stored.size_bytes,
        size_gigabytes=stored.size_bytes / GIGABYTE,
    )


def urn(user: str) -> str:
    return f"warren:user:{user}"


def _projects(
    session: Session, sessions: Sequence[str] | dict[str, Stored]
) -> dict[str, str | None]:
    query = select(TinkerSession.id, TinkerSession.project)
    return dict(session.exec(query.where(col(TinkerSession.id).in_(list(sessions)))).all())


def _used(viewer: Viewer, begin_s: float, end_s: float, session: Session) -> list[UsageEvent]:
    found = [
        *_trained(viewer, begin_s, end_s, session),
        *_sampled(viewer, begin_s, end_s, session),
    ]
    projects = _projects(session, list({use.session_id or "" for use in found}))
    events = (_event(use, projects) for use in found)
    return sorted(events, key=lambda event: event.bucket_start)


@dataclass(frozen=True, slots=True)
class _Use:
    row: UsageRow | SamplingUse
    base_model: str
    session_id: str | None
    tokens: TokensUsed


def _trained(viewer: Viewer, begin_s: float, end_s: float, session: Session) -> list[_Use]:
    query = (
        select(UsageRow, Run.idempotency_key, Model.base_model)
        .join(Run, col(Run.id) == col(UsageRow.run_id))
        .join(Model, col(Model.run_id) == col(Run.id))
        .where(col(Run.idempotency_key).startswith(keys_of()), col(UsageRow.n_tokens_trained) > 0)
        .where(*_within(UsageRow, viewer, begin_s, end_s))
    )
    rows = session.exec(query.order_by(col(UsageRow.day)).limit(MOST_LISTED + 1)).all()
    _require_few(len(rows))
    return [
        _Use(row, base, session_of(name_of(key)), TokensTrained(token_count=row.n_tokens_trained))
        for row, key, base in rows
    ]


def _sampled(viewer: Viewer, begin_s: float, end_s: float, session: Session) -> list[_Use]:
    query = select(SamplingUse).where(*_within(SamplingUse, viewer, begin_s, end_s))
    rows = session.exec(query.order_by(col(SamplingUse.day)).limit(MOST_LISTED + 1)).all()
    _require_few(len(rows))
    return [_Use(row, row.base_model, row.session_id, use) for row in rows for use in _tokens(row)]


def _tokens(row: SamplingUse) -> list[TokensUsed]:
    prompt = PromptTokens(token_count=row.n_tokens_prompt)
    sampled = TokensSampled(token_count=row.n_tokens_sampled)
    return [used for used in (prompt, sampled) if used.token_count]


def _within(
    table: type[UsageRow] | type[SamplingUse], viewer: Viewer, begin_s: float, end_s: float
) -> list[ColumnElement[bool]]:
    days = [col(table.day) >= int(begin_s // DAY_S), col(table.day) < end_s / DAY_S]
    return days if viewer.sees_all else [*days, col(table.owner) == viewer.user]


def _require_few(n_rows: int) -> None:
    if n_rows > MOST_LISTED:
        raise TooMany(f"There is more use than {MOST_LISTED:,} rows; ask for fewer days")


def _event(use: _Use, projects: dict[str, str | None]) -> UsageEvent:
    row = use.row
    return UsageEvent(
        bucket_start=datetime.fromtimestamp(row.day * DAY_S, UTC),
        bucket_end=datetime.fromtimestamp((row.day + 1) * DAY_S, UTC),
        base_model=use.base_model,
        user_id=urn(row.owner),
        user_name=row.owner,
        session_id=use.session_id,
        project_id=projects.get(use.session_id or ""),
        event_info=use.tokens,
    )


def _audited(begin_s: float, end_s: float, about: str | None, session: Session) -> list[AuditRow]:
    is_within = (col(AuditRow.at_s) >= begin_s) & (col(AuditRow.at_s) < end_s)
    query = select(AuditRow).where(is_within).order_by(col(AuditRow.id)).limit(MOST_LISTED + 1)
    if about is not None:
        query = query.where(col(AuditRow.action).contains(about, autoescape=True))
    rows = list(session.exec(query))
    if len(rows) > MOST_LISTED:
        raise TooMany(f"There are more than {MOST_LISTED:,} rows; ask for one event_type")
    return rows
