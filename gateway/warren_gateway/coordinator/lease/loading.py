"""A run is starting while a worker loads its base model for it; the reason says what is loaded, and where.

Invariant: it is queued again once nobody has been loading it for `GAP_S`, in which a worker that was told may leave and
come again under another id, and the job is admitted.
"""

from collections.abc import Sequence

from warren_gateway.coordinator.lease import trainer_lease
from warren_gateway.coordinator.state.coordinator import CoordinatorState
from warren_gateway.loadable import loading
from warren_schemas.control import Heartbeat
from warren_schemas.events import RunState
from warren_schemas.ids import WorkerId

GAP_S = 30.0


def note_loading(state: CoordinatorState, trainers: Sequence[Heartbeat]) -> None:
    """To be called while the run is neither over nor paused."""
    lease = state.lease
    if not state.needs_trainer or lease.holder is not None or lease.is_admitted:
        return
    worker, is_starting = _loader(state, trainers), state.run_state is RunState.STARTING
    if worker is not None or (is_starting and lease.loading_seen_s is None):
        lease.loading_seen_s = state.now_s
    if worker is not None and state.run_state is RunState.QUEUED:
        state.enter(RunState.STARTING, loading(state.spec.base_model, worker))
    elif is_starting and state.now_s - (lease.loading_seen_s or 0.0) > GAP_S:
        lease.loading_seen_s = None
        state.enter(RunState.QUEUED, f"nobody loads {state.spec.base_model} any more")


def _loader(state: CoordinatorState, trainers: Sequence[Heartbeat]) -> WorkerId | None:
    """Who will train it, where nobody could yet."""
    base, n_gpus = state.spec.base_model, state.config.model.gpus
    if trainer_lease.able_trainers(base, n_gpus, trainers):
        return None
    able = (beat for beat in trainers if beat.n_devices >= n_gpus and base in beat.loading)
    return next((beat.worker for beat in able), None)
