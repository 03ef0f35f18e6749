"""Finding sessions among those of a user.

Invariant: as everywhere, a session is seen by its owner alone.
"""

import time
from collections.abc import Sequence
from datetime import UTC, datetime

from sqlalchemy import ColumnElement
from sqlmodel import Session, and_, col, or_, select, true

from warren_gateway.access.caller import Viewer
from warren_gateway.store.tables import TinkerSession
from warren_gateway.tinker.accounts import Stored, stored_by_session, urn
from warren_schemas.tinker.account import (
    FinishReason,
    SearchCursor,
    SearchedStatus,
    SearchSessions,
    SessionActive,
    SessionFinished,
    SessionsFound,
    SessionSummary,
)

SILENT_S = 120.0
"""A client that was not heard of for so long may be gone."""


def search(owner: str, asked: SearchSessions, session: Session) -> SessionsFound:
    """One page, newest first."""
    query = (
        select(TinkerSession)
        .where(col(TinkerSession.owner) == owner, _is_named(asked), _is_before(asked.cursor))
        .order_by(col(TinkerSession.created_s).desc(), col(TinkerSession.id).desc())
    )
    if asked.project_ids is not None:
        query = query.where(col(TinkerSession.project).in_(asked.project_ids))
    if asked.owner.type == "user" and urn(owner) not in asked.owner.owner_urns:
        return SessionsFound(sessions=())
    page, is_more = list[TinkerSession](), False
    for row in session.exec(query):
        if _fits(row, asked):
            if is_more := len(page) == asked.limit:
                break
            page.append(row)
    stored = stored_by_session(session, Viewer(owner), [row.id for row in page])
    return SessionsFound(
        sessions=tuple(_summary(row, stored.get(row.id)) for row in page),
        next_cursor=_cursor(page[-1]) if is_more else None,
    )


def _is_named(asked: SearchSessions) -> ColumnElement[bool]:
    """By its id or by words of its display name, whichever fits."""
    ways: list[ColumnElement[bool]] = []
    if asked.session_id is not None:
        ways.append(col(TinkerSession.id) == asked.session_id)
    if asked.display_name is not None:
        words = asked.display_name.split()
        named = [col(TinkerSession.display_name).icontains(word, autoescape=True) for word in words]
        ways.append(and_(true(), *named))
    return or_(*ways) if ways else true()


def _is_before(cursor: SearchCursor | None) -> ColumnElement[bool]:
    if cursor is None:
        return true()
    at_s = cursor.last_created_at.timestamp()
    is_same = (col(TinkerSession.created_s) == at_s) & (
        col(TinkerSession.id) < cursor.last_session_id
    )
    return or_(col(TinkerSession.created_s) < at_s, is_same)


def _fits(row: TinkerSession, asked: SearchSessions) -> bool:
    metadata = row.metadata_ or {}
    if any(metadata.get(key) != value for key, value in asked.user_metadata.items()):
        return False
    return asked.statuses is None or _has_status(row, asked.statuses)


def _has_status(row: TinkerSession, wanted: Sequence[SearchedStatus]) -> bool:
    status = _status(row)
    if status is None:
        return False
    reason = status.reason.type if isinstance(status, SessionFinished) else None
    return any(
        one.type == status.type and (one.reasons is None or reason in one.reasons) for one in wanted
    )


def _status(row: TinkerSession) -> SessionActive | SessionFinished | None:
    if row.finished_s is not None:
        return SessionFinished(reason=FinishReason(type=row.finish_reason or "success"))
    return SessionActive() if time.time() - row.seen_s < SILENT_S else None


def _summary(row: TinkerSession, stored: Stored | None) -> SessionSummary:
    return SessionSummary(
        session_id=row.id,
        created_at=_created(row),
        owner=urn(row.owner),
        project_id=row.project or "",
        status=_status(row),
        checkpoints_count=stored.n if stored else 0,
        display_name=row.display_name,
        user_metadata=row.metadata_,
        checkpoint_storage_bytes=stored.size_bytes if stored else 0,
    )


def _cursor(row: TinkerSession) -> SearchCursor:
    return SearchCursor(last_created_at=_created(row), last_session_id=row.id)


def _created(row: TinkerSession) -> datetime:
    return datetime.fromtimestamp(row.created_s, UTC)
