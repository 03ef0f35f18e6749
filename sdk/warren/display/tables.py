"""Runs, data sets, workers and queues as tables."""

from collections.abc import Sequence
from datetime import datetime

from warren.display.output import Output
from warren.display.summary import result_rows
from warren.display.words import ago, count, decimal, duration, ending, queued, shared_with
from warren_schemas.config import TrainConfig
from warren_schemas.events import Phase, RunOutcome, RunState
from warren_schemas.http import (
    AdapterView,
    BaseModelView,
    DatasetView,
    QueueView,
    RunView,
    WorkerView,
)


def print_runs(views: Sequence[RunView], output: Output) -> None:
    if not views:
        output.line("No runs yet. Start one with: warren train examples/guess.yaml")
        return
    output.table(
        ["run", "name", "state", "step", "reward", "started", "took"],
        [_run_row(view) for view in views],
        right=["step", "reward", "took"],
    )
    _print_waits(views, output)


def print_run(view: RunView, output: Output) -> None:
    """One run, with everything that it tells."""
    rows = [("name", view.name), ("state", _state(view)), ("step", _step(view))]
    if view.queue:
        rows.append(("queue", queued(view.queue)))
    if view.priority:
        rows.append(("priority", str(view.priority)))
    if view.on_disconnect == "cancel":
        rows.append(("on disconnect", "saved and cancelled, once its client is gone"))
    if view.waiting_for and view.waiting_for != (view.queue and view.queue.reason):
        rows.append(("waiting for", view.waiting_for))
    if view.error:
        rows.append(("error", view.error))
    rows += [
        *_config_rows(view.config),
        ("reward (sampled)", decimal(view.reward)),
        ("submitted", ago(view.created_s)),
    ]
    if view.result:
        if view.result.remark:
            rows.append(("remark", view.result.remark))
        rows += result_rows(view.result, view.config)
    output.line(view.id, "bold")
    width = max(len(label) for label, _ in rows)
    for label, value in rows:
        output.line(f"  {label.ljust(width)} {value}")
    for entered in view.history:
        when = datetime.fromtimestamp(entered.at_s).astimezone().strftime("%d %b %H:%M:%S")
        output.line(f"  {when}  {entered.state}{f': {entered.reason}' if entered.reason else ''}")
    if not view.state.is_final:
        output.line(f"Follow it with: warren runs show {view.id} --follow", "dim")


def _config_rows(config: TrainConfig | None) -> list[tuple[str, str]]:
    if config is None:
        return [("config", "unreadable for this gateway, which is older than the run")]
    return [
        ("model", f"{config.model.base} ({config.model.update.kind})"),
        ("environments", ", ".join(e.name for e in config.environments)),
    ]


def print_workers(workers: Sequence[WorkerView], output: Output) -> None:
    if not workers:
        output.line("No workers are online. `warren up` starts a full set on this machine;")
        output.line("`warren gpu-worker` and `warren env-worker` start single ones.")
        return
    output.table(
        ["worker", "role", "offers", "busy", "done", "models", "host", "seen"],
        [_worker_row(worker) for worker in workers],
        right=["busy", "done"],
    )


def print_queues(queues: Sequence[QueueView], output: Output) -> None:
    if not queues:
        output.line("There are no queues yet: they appear with the first worker.")
        return
    rows = [(queue.name, count(queue.n_ready)) for queue in queues]
    output.table(["queue", "waiting"], rows, right=["waiting"])


def _run_row(view: RunView) -> tuple[str, ...]:
    took = ""
    if view.started_s is not None and view.ended_s is not None:
        took = duration(view.ended_s - view.started_s)
    state, reward = _brief_state(view), decimal(view.reward)
    return (view.id, view.name, state, _step(view), reward, ago(view.created_s), took)


def _print_waits(views: Sequence[RunView], output: Output) -> None:
    """Why runs wait, each reason once."""
    waiting: dict[str, list[str]] = {}
    for view in views:
        if reason := view.queue.reason if view.queue else view.waiting_for:
            waiting.setdefault(reason, []).append(view.name)
    for reason, names in waiting.items():
        who = f"{names[0]} waits" if len(names) == 1 else f"{len(names)} runs wait"
        output.line(f"{who}: {reason}", "dim")


def _worker_row(worker: WorkerView) -> tuple[str, ...]:
    return (
        worker.id,
        worker.role if worker.n_devices == 1 else f"{worker.role} ({worker.n_devices} GPUs)",
        _offers(worker),
        f"{worker.in_flight}/{worker.capacity}",
        count(worker.n_done),
        str(len(worker.models)),
        f"{worker.host}:{worker.pid}",
        ago(worker.last_seen_s),
    )


def _offers(worker: WorkerView) -> str:
    if worker.is_draining:
        return "(drained)"
    return ", ".join((*worker.offers, *(f"(loading {base})" for base in worker.loading)))


def _state(view: RunView) -> str:
    if view.phase is None or view.state.is_final:
        return _brief_state(view)
    return f"{view.state} ({view.phase})"


def _brief_state(view: RunView) -> str:
    state = ending(view.state, _outcome(view))
    if view.state is RunState.STARTING and view.config:
        return f"{state} (loading {view.config.model.base})"
    return f"{state} (number {view.queue.number})" if view.queue else state


def _outcome(view: RunView) -> RunOutcome | None:
    return view.result.outcome if view.result else None


def _step(view: RunView) -> str:
    """Steps of reinforcement learning; while SFT goes on, its own; those of a client's model have no end."""
    if view.phase is Phase.SFT:
        of = f"/{view.config.sft.steps}" if view.config and view.config.sft else ""
        return f"SFT {view.sft_step}{of}"
    return str(view.step) if view.step > view.n_steps else f"{view.step}/{view.n_steps}"


def print_datasets(views: Sequence[DatasetView], output: Output) -> None:
    rows = [
        (
            view.name, view.digest[:12], view.owner, view.kind.value, ", ".join(split.name for split in view.splits),
            count(view.n_rows), count(view.size_bytes), ago(view.created_s),
            shared_with(view.shared_with),
        )
        for view in views
    ]  # fmt: skip
    columns = ["name", "digest", "of", "kind", "splits", "rows", "bytes", "made", "shared with"]
    output.table(columns, rows, right=["rows", "bytes"])


def print_adapters(views: Sequence[AdapterView], output: Output) -> None:
    rows = [
        (
            view.name, view.digest[:12], view.owner, view.base_model, count(view.rank), f"{view.alpha:g}",
            count(view.size_bytes), ago(view.created_s), shared_with(view.shared_with),
        )
        for view in views
    ]  # fmt: skip
    made = ["rank", "alpha", "bytes", "made", "shared with"]
    output.table(["name", "digest", "of", "base model", *made], rows, right=made[:3])


def print_base_models(views: Sequence[BaseModelView], output: Output) -> None:
    rows = [
        (
            view.name, view.digest[:12], view.owner, view.architecture, count(view.n_parameters), count(view.size_bytes),
            ago(view.created_s), shared_with(view.shared_with),
        )
        for view in views
    ]  # fmt: skip
    made = ["parameters", "bytes", "made", "shared with"]
    output.table(["name", "digest", "of", "architecture", *made], rows, right=made[:2])
