"""Policy versions of a model that stay for the samplers that Tinker's clients have opened.

Invariants
- A version counts from when its sampler is opened until the sampler's session ends: it is finished, or nothing was heard
  of its client for `SILENT_S`.
- The clients close no sampler, and many open one with each step. So of the versions without a name the `MOST_SAMPLED`
  count that were opened or sampled from last: one that is used stays, however old it is.
"""

from sqlalchemy import bindparam
from sqlmodel import Session, col, func, select

from warren_gateway.store.clock import store_time_s
from warren_gateway.store.tables import SnapshotRow, TinkerSampler, TinkerSession

SILENT_S = 86_400.0
MOST_SAMPLED = 64

_NAMED = select(SnapshotRow.version).where(col(SnapshotRow.model_id) == bindparam("its_model"))
_SAMPLED = (
    select(TinkerSampler.version)
    .join(TinkerSession, col(TinkerSession.id) == col(TinkerSampler.session_id))
    .where(col(TinkerSampler.model_id) == bindparam("its_model"))
    .where(col(TinkerSampler.version).is_not(None))
    .where(col(TinkerSampler.version).not_in(_NAMED))
    .where(col(TinkerSession.finished_s).is_(None))
    .where(col(TinkerSession.seen_s) > bindparam("its_since_s"))
    .group_by(col(TinkerSampler.version))
    .order_by(func.max(TinkerSampler.used_s).desc(), col(TinkerSampler.version).desc())
    .limit(MOST_SAMPLED)
)
"""Made once: it is asked for with each policy that is published."""


def sampled_versions(session: Session, model: str) -> frozenset[int]:
    """Beside those that have a name."""
    named = {"its_model": model, "its_since_s": store_time_s(session) - SILENT_S}
    found = session.exec(_SAMPLED, params=named)
    return frozenset(version for version in found if version is not None)
