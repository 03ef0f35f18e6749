"""What GPU workers have loaded for one owner's evaluations in the last hour."""

from warren_gateway.store.tables import SchedulerRow

HOUR_S = 3600.0


def loaded_lately(row: SchedulerRow, owner: str, now_s: float) -> list[float]:
    """When. Times that a clock which was set back has yet to reach count as well: they end with it."""
    return [at_s for at_s in row.evaluated.get(owner, []) if abs(now_s - at_s) < HOUR_S]
