"""Which endings of a recording the run that recorded it counted: a replay takes those and no others.

A late ending of an attempt that was given up stands before that of the attempt that was used, and
nothing in the stream tells which is which; the recorder's outcomes do, and they are final.
"""

from collections.abc import Mapping, Sequence

from sqlalchemy import bindparam
from sqlmodel import Session, col, select

from warren_gateway.position import Position
from warren_gateway.store.tables import GroupRow, Run
from warren_schemas.episode import EpisodeEnded
from warren_schemas.events import RunState
from warren_schemas.ids import RunId

Counted = Mapping[int, str | None]
"""By place in a message the fate of an ending that counted, None of one that did not. Endings of groups that were
still open when the run ended are not there."""

# Made once, and without the progress of the run, which is large: they are asked for each message of a recording.
_STANDING = select(Run.stream_offset, Run.state).where(col(Run.id) == bindparam("its_id"))
_GROUPS = select(GroupRow).where(
    col(GroupRow.run_id) == bindparam("its_run"),
    col(GroupRow.id).in_(bindparam("its_groups", expanding=True)),
)


def counted_places(
    session: Session, recorder: RunId, items: Sequence[EpisodeEnded], offset: int
) -> Counted | None:
    """Of one message of its stream; None while the recorder may not have decided about all of it."""
    stream_offset, run_state = session.exec(_STANDING, params={"its_id": recorder}).one()
    if stream_offset <= offset and not RunState(run_state).is_final:
        return None
    of_items = {"its_run": recorder, "its_groups": [*{item.spec.group for item in items}]}
    outcomes = {row.id: row.outcomes for row in session.exec(_GROUPS, params=of_items)}
    counted: dict[int, str | None] = {}
    for place, item in enumerate(items):
        members = outcomes.get(item.spec.group)
        if members is not None and item.spec.member < len(members):
            member = members[item.spec.member]
            is_it = member.get("position") == int(Position(offset, place))
            counted[place] = member["fate"] if is_it else None
    return counted
