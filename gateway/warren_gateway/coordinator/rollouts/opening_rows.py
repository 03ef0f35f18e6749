"""The rows of a run's data sets, which are opened before its first decision.

Invariant: a run whose data sets can't be read waits as for a worker: it says so, its owner and `limits.wait_s` may end it,
and it goes on by itself when they are back. One that is to end goes without them.
"""

import logging
from collections.abc import Awaitable, Callable

from warren_gateway.coordinator.state.coordinator import CoordinatorState
from warren_gateway.coordinator.state.rows import OpenRows
from warren_gateway.datasets.problems import FilesUnavailable

log = logging.getLogger(__name__)


async def with_rows(
    state: CoordinatorState, open_rows: OpenRows, stand_still: Callable[[str], Awaitable[None]]
) -> bool:
    """Whether the state has what it needs to be driven; False once it has waited, for its times are old by then."""
    has_waited = False
    while not state.is_over:
        try:
            state.rows = await open_rows(state.config)
            break
        except FilesUnavailable as error:
            if state.observed.is_to_end:
                return True
            if not has_waited:
                log.warning("%s waits for its data sets: %s", state.run, error)
            has_waited = True
            await stand_still(f"{error}; the run goes on by itself when it can")
    return state.is_over or not has_waited
