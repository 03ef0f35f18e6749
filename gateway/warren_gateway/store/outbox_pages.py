"""What a relay reads of the outbox: the oldest messages, without those that were sent."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlalchemy import and_, bindparam, delete, exists, func, or_
from sqlalchemy import select as select_rows
from sqlalchemy.orm import aliased
from sqlmodel import Session, col, select

from warren_gateway.store.statements import table
from warren_gateway.store.tables import OutboxRow

_OUTBOX = table(OutboxRow)
_FORGET = delete(_OUTBOX).where(
    _OUTBOX.c.id.in_(bindparam("ids", expanding=True)),
    _OUTBOX.c.message_id.in_(bindparam("messages", expanding=True)),
)
"""By the message too: SQLite gives the ids of rows that are gone to new ones, and that they are gone may not be known,
where a commit has taken place and was reported as failed."""
_OLDEST = (
    select_rows(_OUTBOX)
    .where(_OUTBOX.c.address.not_in(bindparam("busy", expanding=True)))
    .order_by(_OUTBOX.c.id)
    .limit(bindparam("n_most"))
)


Sent = tuple[int, str]
"""Ids of a row and of its message."""


@dataclass(frozen=True, slots=True)
class Page:
    rows: list[tuple[OutboxRow, bool]]
    """True for each that has to wait until another gateway has sent something older to the same stream."""
    n_sent: int
    """Of those that were sent, how many are gone with it, oldest first."""
    passed_over: frozenset[str]
    """Names of addresses that were busy: more may lie there for them."""


def next_page(
    session: Session,
    *,
    sent: Sequence[Sent],
    busy: Collection[str],
    only: str | None,
    orphaned_to: int,
    n_most: int,
) -> Page:
    """Without what was `sent`: the oldest rows, all or those of one gateway, to addresses that are not `busy`."""
    if sent:
        ids, messages = zip(*sent, strict=True)
        session.connection().execute(_FORGET, {"ids": ids, "messages": messages})
    rows = (
        _oldest(session, busy, n_most)
        if only is None
        else _of_gateway(session, busy, only, orphaned_to, n_most)
    )
    return Page(rows, len(sent), frozenset(busy))


def _oldest(session: Session, busy: Collection[str], n_most: int) -> list[tuple[OutboxRow, bool]]:
    found = session.connection().execute(_OLDEST, {"busy": list(busy), "n_most": n_most})
    return [(OutboxRow(**row), False) for row in found.mappings()]


def _of_gateway(
    session: Session, busy: Collection[str], only: str, orphaned_to: int, n_most: int
) -> list[tuple[OutboxRow, bool]]:
    is_free = col(OutboxRow.address).not_in(busy)
    older = aliased(OutboxRow)
    is_early = and_(
        col(OutboxRow.address_kind) == "stream",
        exists().where(
            col(older.address) == OutboxRow.address,
            col(older.id) < OutboxRow.id,
            col(older.id) > orphaned_to,
            col(older.gateway) != only,
        ),
    )
    query = (
        select(OutboxRow, is_early)
        .where(is_free, or_(col(OutboxRow.gateway) == only, col(OutboxRow.id) <= orphaned_to))
        .order_by(col(OutboxRow.id))
        .limit(n_most)
    )
    return [(row, bool(early)) for row, early in session.exec(query)]


def newest(session: Session) -> int:
    """Id of the newest message of all."""
    return session.exec(select(func.max(col(OutboxRow.id)))).one() or 0
