"""Counting what samples took that clients of Tinker's protocol have asked for, many of them at once.

What a sample took is written with its outcome. To count it there too costs half of what it takes to store the sample, and
makes all samples of an owner wait for each other.

Invariant: what a sample took is counted in the transaction that takes it off its row, by whoever has taken it, and so once,
also where the store locks no row that is read.
"""

from collections import defaultdict

import orjson
from sqlmodel import Session, col, select, update

from warren_gateway.store.tables import TinkerSample
from warren_gateway.usage.counting import DAY_S, SampleUse, count_samples

MOST_COUNTED = 10_000
"""Samples of one transaction; the next one comes soon."""

_IS_UNCOUNTED = col(TinkerSample.used).is_not(None)
_UNCOUNTED = (
    select(TinkerSample.id, TinkerSample.owner, TinkerSample.done_s, TinkerSample.used)
    .where(_IS_UNCOUNTED)
    .order_by(TinkerSample.id)
    .limit(MOST_COUNTED)
    .with_for_update(skip_locked=True)
)


def count_uncounted(session: Session) -> None:
    """Count what was written with samples that are done. What another gateway is counting is left to it."""
    rows = session.exec(_UNCOUNTED).all()
    if not rows:
        return
    is_read = col(TinkerSample.id).in_([name for name, *_ in rows]) & _IS_UNCOUNTED
    taking = update(TinkerSample).where(is_read).values(used=None).returning(col(TinkerSample.id))
    taken = set(session.exec(taking).scalars())
    together = defaultdict[tuple[str, str, int, str, str], list[tuple[float, SampleUse]]](list)
    for name, owner, done_s, values in rows:
        if name not in taken:
            continue
        used, at_s = SampleUse(**orjson.loads(values or b"{}")), done_s or 0.0
        client, day = name.partition(":")[0], int(at_s // DAY_S)
        together[owner, client, day, used.model, used.base_model].append((at_s, used))
    for (owner, client, *_), found in sorted(together.items()):
        uses, now_s = [used for _, used in found], max(at_s for at_s, _ in found)
        count_samples(session, session_id=client, owner=owner, uses=uses, now_s=now_s)
