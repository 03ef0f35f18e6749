"""The first episode that fails is told at once.

A run goes on after failures, and whether all its episodes fail shows only after many, each of which
may take as long as a call that hangs may. Told once: the count is part of the stored progress.
"""

from warren_gateway.coordinator.memory import Memory
from warren_schemas.episode import Failed
from warren_schemas.events import WarningRaised


def tell(memory: Memory, environment: int, failure: Failed) -> None:
    """Call before the failure is counted."""
    if memory.progress.n_failed_episodes:
        return
    name = memory.config.environments[environment].name
    message = (
        f"an episode of {name} failed: {failure.reason}; the run goes on, and ends if"
        f" {memory.config.limits.failed_groups} groups in a row come to nothing"
    )
    memory.emit(WarningRaised(message=message))
