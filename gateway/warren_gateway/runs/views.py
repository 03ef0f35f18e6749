"""Rows as the HTTP API shows them."""

from collections.abc import Iterable
from pathlib import Path

from warren_gateway.registry import Seen
from warren_gateway.runs.newer_versions import readable_config, readable_result
from warren_gateway.store.tables import HistoryRow, Run
from warren_schemas.events import Phase, RunState
from warren_schemas.http import QueuePlace, RunResult, RunView, StateView, WorkerView
from warren_schemas.ids import RunId
from warren_schemas.tensorboard.about import folder_name


def run_view(
    row: Run,
    runs_dir: Path,
    history: Iterable[HistoryRow] = (),
    place: QueuePlace | None = None,
) -> RunView:
    state = RunState(row.state)
    return RunView(
        id=RunId(row.id),
        name=row.name,
        owner=row.owner,
        state=state,
        phase=Phase(row.phase) if row.phase else None,
        waiting_for=row.waiting_for,
        queue=None if state.is_final or state is RunState.PAUSED else place,
        priority=row.priority,
        on_disconnect="cancel" if row.on_disconnect == "cancel" else "detach",
        client_lease_s=row.client_lease_s,
        client_until_s=row.client_until_s,
        step=row.step,
        n_steps=row.n_steps,
        sft_step=row.sft_step,
        reward=row.reward,
        error=row.error,
        created_s=row.created_s,
        started_s=row.started_s,
        ended_s=row.ended_s,
        retry_of=RunId(row.retry_of) if row.retry_of else None,
        sweep=row.sweep,
        history=tuple(
            StateView(state=RunState(one.state), at_s=one.at_s, reason=one.reason)
            for one in history
        ),
        result=_result(row, runs_dir),
        config=readable_config(row),
    )


def _result(row: Run, runs_dir: Path) -> RunResult | None:
    """What the coordinator found, and where this gateway wrote the run's TensorBoard files."""
    result = readable_result(row)
    folder = runs_dir / folder_name(row.name, row.id)
    return result and result.model_copy(update={"log_dir": str(folder)})


def worker_view(seen: Seen) -> WorkerView:
    beat = seen.heartbeat
    return WorkerView(
        id=beat.worker,
        role=beat.role,
        offers=beat.offers,
        capacity=beat.capacity,
        in_flight=beat.in_flight,
        n_done=beat.n_done,
        models=tuple(held.model for held in beat.models),
        host=beat.host,
        pid=beat.pid,
        last_seen_s=seen.at_s,
        loading=beat.loading,
        may_load=beat.may_load,
        cannot_load={one.base_model: one.reason for one in beat.cannot_load},
        n_devices=beat.n_devices,
        is_draining=beat.is_draining,
    )
