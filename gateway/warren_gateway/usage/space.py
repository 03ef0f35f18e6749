"""Whether an owner may store more."""

from sqlmodel import Session

from warren_gateway.store.tables import User
from warren_gateway.usage.limits import OwnerLimits
from warren_gateway.usage.stored_bytes import GIB, stored_bytes


def lack_of_space(
    session: Session, owner: str, n_bytes: int, limits: OwnerLimits, *, is_alone: bool = False
) -> str | None:
    """Why this owner may not store so much more than what is stored; `is_alone`: of two who ask at once one waits."""
    most_gib = limits.of(session.get(User, owner, with_for_update=is_alone)).stored_gib
    stored = stored_bytes(session, owner) + n_bytes
    if stored <= most_gib * GIB:
        return None
    return (
        f"With this you would store {stored / GIB:.3g} GiB of checkpoints, policies, data sets, adapters and base"
        f" models, and may store {most_gib:g}; `warren data rm NAME`, `warren adapters rm NAME`, `warren base-models rm NAME` and"
        " `warren runs delete RUN` make room"
    )
