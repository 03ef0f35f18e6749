"""What the scheduler must know of owners: their weights, their recent use and their quotas."""

from collections.abc import Collection

from sqlmodel import Session

from warren_gateway.scheduling.decision import OwnerShare
from warren_gateway.usage.counting import recent_use
from warren_gateway.usage.limits import OwnerLimits


def owner_shares(
    session: Session, owners: Collection[str], limits: OwnerLimits, now_s: float
) -> dict[str, OwnerShare]:
    """Of each of these owners, as the store has it now."""
    used = recent_use(session, owners, now_s)
    return {
        owner: OwnerShare(
            owner,
            weight=limit.gpu_weight,
            used_gpu_s=used.get(owner, 0.0),
            most_held=limit.runs_running,
        )
        for owner, limit in limits.of_all(session, owners).items()
    }
