"""What a coordinator reads from and writes to the store, besides its changes."""

import math
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from typing import cast

from sqlalchemy import bindparam
from sqlmodel import Session, col, select

from warren_broker.port import FromTime
from warren_broker.topology import train, trainer
from warren_gateway.coordinator.clients import reading
from warren_gateway.coordinator.clients.source import ByClient
from warren_gateway.coordinator.learning import op_log
from warren_gateway.coordinator.lease import job, trainer_lease
from warren_gateway.coordinator.replaying.files import Archived, Uploaded, n_messages
from warren_gateway.coordinator.replaying.readings import Readings
from warren_gateway.coordinator.replaying.recording import Recording, Terms
from warren_gateway.coordinator.replaying.shuffling import Window
from warren_gateway.coordinator.replaying.source import Recorded
from warren_gateway.coordinator.restoring import restore
from warren_gateway.coordinator.rollouts.source import Live
from warren_gateway.coordinator.run_leases import fence
from warren_gateway.coordinator.state.change import Change, group_of, recorded_id
from warren_gateway.coordinator.state.coordinator import CoordinatorState, Progress
from warren_gateway.coordinator.state.group_parts import Reading
from warren_gateway.coordinator.state.observed import TrainedRun
from warren_gateway.coordinator.state.source import ReadFrom, Source
from warren_gateway.datasets.resolving import read_row
from warren_gateway.datasets.stored import splits_of
from warren_gateway.position import Position
from warren_gateway.runs.kept_versions import KeptVersions, kept_versions
from warren_gateway.runs.streams import recording
from warren_gateway.stop_request import StopRequest
from warren_gateway.store.outbox import has_posted, post
from warren_gateway.store.tables import GroupRow, JobRow, Model, OpRow, Run
from warren_gateway.usage.counting import count
from warren_schemas.codec.wire import decode
from warren_schemas.config import ClientSource, LimitsConfig, RecordedSource, TrainConfig
from warren_schemas.events import RunState
from warren_schemas.ids import GroupId, ModelId, RunId
from warren_schemas.training import Op

CLOCK_SKEW_S = 10.0
"""How far the clocks of gateways and of those who record may differ."""

# Of whoever takes over a run, or looks at its row: see `store.statements`.
_MODEL = select(Model).where(col(Model.run_id) == bindparam("its_run"))
_OPEN_GROUPS = (
    select(GroupRow)
    .where(col(GroupRow.run_id) == bindparam("its_run"), col(GroupRow.is_open))
    .order_by(col(GroupRow.number))
)
_OPS_AFTER = select(OpRow.number, OpRow.item_id).where(
    col(OpRow.model_id) == bindparam("its_model"), col(OpRow.number) > bindparam("its_newest")
)
_DONE_AFTER = _OPS_AFTER.where(col(OpRow.outcome)["status"].as_string() == "done")
_JOB_STATE = select(JobRow.state).where(col(JobRow.run_id) == bindparam("its_run"))


@dataclass(frozen=True, slots=True)
class RunRequests:
    is_cancel_requested: bool
    stop_request: StopRequest | None
    limits_number: int
    limits: LimitsConfig | None
    """Where they are others than those of the number that was asked with."""
    given_up: str | None
    """Why it is to be ended as failed."""
    is_admitted: bool
    """Its job may go to a trainer."""
    served: KeptVersions
    """Policy versions that names are served from."""


def load(session: Session, run_id: RunId, now_s: float) -> CoordinatorState:
    """The state of a run, for the coordinator that holds its lease."""
    run = session.get_one(Run, run_id)
    of_run = {"its_run": run_id}
    model = session.exec(_MODEL, params=of_run).one()
    groups = session.exec(_OPEN_GROUPS, params=of_run)
    state = restore(
        run,
        model,
        groups,
        _source(session, run, now_s),
        now_s,
        is_admitted=_is_admitted(session, run_id),
    )
    state.observed.served = kept_versions(session, run_id)
    _restore_log(session, state, model)
    if state.is_clients:
        reading.restore(state, reading.open_ops(session, model.id))
    return state


def _restore_log(session: Session, state: CoordinatorState, model: Model) -> None:
    newer = {"its_model": model.id, "its_newest": model.checkpoint_op}
    ids = session.exec(_OPS_AFTER, params=newer).all()
    done = session.exec(_DONE_AFTER, params=newer).all()
    op_log.restore(state.learning, ids, [number for number, _ in done])


def end_of_recording(session: Session, recording: Recording) -> int | None:
    """The offset at which it ends, 0 where nothing of it is from its start on; None while its run goes on."""
    if isinstance(recording.origin, Uploaded):
        return n_messages(_n_rows(session, recording.origin))
    run = session.get_one(Run, recording.recorder)
    if not RunState(run.state).is_final:
        return None
    start, last_s = recording.start, math.inf if run.ended_s is None else run.ended_s + CLOCK_SKEW_S
    is_older = isinstance(start, FromTime) and last_s < start.unix_s
    return 0 if is_older else run.stream_offset


def _n_rows(session: Session, rows: Uploaded) -> int:
    splits = splits_of(read_row(session, rows.reference))
    return next(split.n_rows for split in splits if split.name == rows.split)


def _source(session: Session, run: Run, now_s: float) -> Source[CoordinatorState]:
    config = TrainConfig.model_validate(run.config)
    if isinstance(config.source, ClientSource):
        return ByClient()
    if not isinstance(config.source, RecordedSource) or RunState(run.state).is_final:
        return Live()  # a replay that is over reads nothing, and its recordings may be deleted
    return _recorded(session, run, config, config.source, now_s)


def _recorded(
    session: Session, run: Run, config: TrainConfig, source: RecordedSource, now_s: float
) -> Recorded:
    progress = Progress.model_validate(run.progress or {})
    reading = Reading(progress.recording_epoch, progress.recording_number)
    readings = Readings(
        _recordings(session, source, is_evaluated=config.evaluates_recorded),
        epochs=source.epochs,
        begin=ReadFrom(reading, progress.recording_offset),
        consumed=_consumed(session, run.id),
    )
    return Recorded(
        readings,
        now_s,
        where=source.where,
        window=Window(config.seed, source.shuffle_window or 1),
        is_scored=source.is_scored,
        is_evaluated=config.evaluates_recorded,
    )


def _recordings(session: Session, source: RecordedSource, *, is_evaluated: bool) -> list[Recording]:
    found = [_recording(session, source, name) for name in source.runs]
    if source.dataset is not None:
        found = [Recording(None, Uploaded(source.dataset, source.split), None, Position(0))]
    for each in found:
        each.is_evaluated = is_evaluated
        each.end_offset = end_of_recording(session, each)
    return found


def _recording(session: Session, source: RecordedSource, name: str) -> Recording:
    recorder = session.get_one(Run, name)
    config = TrainConfig.model_validate(recorder.config)
    origin, form = recording(recorder.id, config), config.retention.archive
    if source.from_archive and form is not None:
        origin = Archived(form)
    return Recording(RunId(recorder.id), origin, Terms.of(config), _start(source, name))


def _start(source: RecordedSource, name: str) -> Position | FromTime:
    """An offset is one of the first recording; a time is one of all."""
    if source.from_s is not None:
        return FromTime(source.from_s)
    return Position.of((source.from_offset or 0) if name == source.run else 0)


def _consumed(session: Session, run_id: str) -> dict[int, set[GroupId]]:
    """By epoch of a replay; what was evaluated has rows of the run's own, which name its episodes."""
    consumed = defaultdict[int, set[GroupId]](set)
    evaluated = col(GroupRow.outcomes)[(0, "recorded")].as_string()
    query = select(GroupRow.id, evaluated).where(col(GroupRow.run_id) == run_id)
    for row_id, episode in session.exec(query):
        group, epoch = recorded_id(row_id) if episode is None else (group_of(episode), 0)
        consumed[epoch].add(group)
    return consumed


def requests_of(session: Session, run_id: RunId, limits_number: int) -> RunRequests:
    """What others than the coordinator have written of the run, which knows the limits of this number."""
    run = session.get_one(Run, run_id)
    is_changed = run.limits_number != limits_number
    return RunRequests(
        is_cancel_requested=run.is_cancel_requested,
        stop_request=StopRequest(run.stop_request) if run.stop_request else None,
        limits_number=run.limits_number,
        limits=TrainConfig.model_validate(run.config).limits if is_changed else None,
        given_up=run.given_up,
        is_admitted=_is_admitted(session, run_id),
        served=kept_versions(session, run_id),
    )


def _is_admitted(session: Session, run_id: RunId) -> bool:
    return session.exec(_JOB_STATE, params={"its_run": run_id}).one_or_none() == "admitted"


def model_of_ended(run_id: RunId, session: Session) -> ModelId | None:
    """None where the run goes on, or is deleted."""
    run = session.get(Run, run_id)
    if run is None or not RunState(run.state).is_final:
        return None
    model = session.exec(_MODEL, params={"its_run": run_id}).one_or_none()
    return None if model is None else ModelId(model.id)


def runs_of(session: Session, models: Collection[ModelId]) -> dict[ModelId, TrainedRun]:
    """Whose models these are; one that is not known here is left out."""
    query = (
        select(Model.id, Run)
        .join(Run, col(Run.id) == col(Model.run_id))
        .where(col(Model.id).in_(models))
    )
    return {
        ModelId(model): TrainedRun(RunId(run.id), run.name, run.owner, run.waiting_for)
        for model, run in session.exec(query)
    }


def save(session: Session, state: CoordinatorState, change: Change) -> bool:
    """Commit a change, once; True where messages of it may wait to be sent. Raises `LeaseLost`, `LimitsChanged`."""
    if change.is_empty:
        return False
    if not _is_first(session, state, change):
        return True
    _apply(session, state, change)
    return has_posted(session)


def save_grant(session: Session, state: CoordinatorState, change: Change) -> None:
    """Save the grant of a lease and send the new holder every op after the checkpoint.

    Raises `LeaseLost`, `LimitsChanged`.
    """
    if not _is_first(session, state, change):
        return
    _apply(session, state, change)
    _send_after(session, state, state.learning.checkpoints.newest_op)


def _is_first(session: Session, state: CoordinatorState, change: Change) -> bool:
    number = state.limits_number if change.follows_from_limits else None
    return fence(
        session,
        state.run,
        epoch=state.epoch,
        revision=change.revision,
        limits_number=number,
        columns=change.run,
    )


def _apply(session: Session, state: CoordinatorState, change: Change) -> None:
    change.apply(session, state.run, state.model)
    count(session, run=state.run, owner=state.owner, used=change.used, now_s=state.now_s)


def send_unanswered(session: Session, state: CoordinatorState) -> None:
    """Send the holder again what the store has no answer to.

    A store that lost its newest changes may have lost the answers, which nobody gives by themselves
    twice; a trainer that has opened the model, or applied the op, answers again.
    """
    if state.is_over:
        return
    if state.lease.holder is None:
        if state.lease.is_job_sent:
            post(session, *job.message(state))
        return
    if not state.lease.is_opened:
        post(session, trainer(state.lease.holder), trainer_lease.opening(state))
    _send_after(session, state, state.learning.ops.done)


def _send_after(session: Session, state: CoordinatorState, number: int) -> None:
    """Send the holder of the lease every op after this one."""
    epoch = state.lease.epoch
    newer = (col(OpRow.model_id) == state.model) & (col(OpRow.number) > number)
    for row in session.exec(select(OpRow).where(newer).order_by(col(OpRow.number))):
        op = op_log.sent_again(cast("Op", decode(row.body).items[0]), row.outcome)
        post(session, train(state.model, epoch), op.model_copy(update={"epoch": epoch}))
