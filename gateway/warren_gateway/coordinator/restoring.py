"""A coordinator's state from the rows of its run: what another one left, or nothing yet."""

from collections.abc import Iterable

from warren_gateway.coordinator.state.coordinator import CoordinatorState, Progress
from warren_gateway.coordinator.state.group_parts import Interruption, PlayedTask
from warren_gateway.coordinator.state.groups import Group
from warren_gateway.coordinator.state.learning import LearningState
from warren_gateway.coordinator.state.lease import TrainerLease
from warren_gateway.coordinator.state.observed import Observed
from warren_gateway.coordinator.state.open_groups import OpenGroups
from warren_gateway.coordinator.state.rollouts import RolloutState
from warren_gateway.coordinator.state.source import Source
from warren_gateway.coordinator.state.waiting import WaitingState
from warren_gateway.stop_request import StopRequest
from warren_gateway.store.tables import GroupRow, Model, Run
from warren_schemas.config import TrainConfig
from warren_schemas.episode import EpisodePurpose
from warren_schemas.events import RunState
from warren_schemas.ids import GroupId, ModelId, RunId, WorkerId
from warren_schemas.training import ModelSpec


def restore(
    run: Run,
    model: Model,
    groups: Iterable[GroupRow],
    source: Source[CoordinatorState],
    now_s: float,
    *,
    is_admitted: bool = False,
) -> CoordinatorState:
    """The state of a coordinator that takes the run up."""
    progress = Progress.model_validate(run.progress or {})
    return CoordinatorState(
        run=RunId(run.id),
        owner=run.owner,
        model=ModelId(model.id),
        config=TrainConfig.model_validate(run.config),
        spec=ModelSpec.model_validate(model.spec),
        source=source,
        rollouts=_rollouts(progress.rollouts, run, groups),
        learning=_learning(progress.learning, model),
        lease=_lease(progress.lease, model, now_s, is_admitted=is_admitted),
        alarms=progress.alarms,
        client=progress.client,
        waiting=WaitingState(reason=run.waiting_for, since_s=run.waiting_since_s),
        observed=Observed(
            is_cancel_requested=run.is_cancel_requested,
            stop_request=StopRequest(run.stop_request) if run.stop_request else None,
            given_up=run.given_up,
        ),
        run_state=RunState(run.state),
        stage_number=progress.stage_number,
        stopping=progress.stopping,
        limits_number=run.limits_number,
        n_reports=progress.n_reports,
        created_s=run.created_s,
        started_s=run.started_s,
        now_s=now_s,
        epoch=run.epoch,
        revision=run.revision,
    )


def _rollouts(stored: RolloutState, run: Run, groups: Iterable[GroupRow]) -> RolloutState:
    stored.stream_offset = run.stream_offset
    stored.groups = OpenGroups(_group(row) for row in groups)
    return stored


def _learning(stored: LearningState, model: Model) -> LearningState:
    ops, policy, checkpoints = stored.ops, stored.policy, stored.checkpoints
    ops.last = model.last_op
    ops.done = ops.answered = model.done_op
    policy.version, policy.url = model.policy_version, model.policy_url
    policy.published = [(step, version) for step, version in model.policies]
    checkpoints.newest_op, checkpoints.newest_url = model.checkpoint_op, model.checkpoint_url
    return stored


def _lease(stored: TrainerLease, model: Model, now_s: float, *, is_admitted: bool) -> TrainerLease:
    stored.epoch = model.epoch
    stored.holder = WorkerId(model.holder) if model.holder else None
    stored.is_opened = model.is_opened
    stored.seen_s = now_s
    stored.is_admitted = is_admitted
    return stored


def _group(row: GroupRow) -> Group:
    return Group(
        id=GroupId(row.id),
        number=row.number,
        purpose=EpisodePurpose(row.purpose),
        environment=row.environment,
        task=PlayedTask(row.task_index, row.level),
        min_version=row.min_version,
        deadline_s=row.deadline_s,
        attempts=list(row.attempts),
        interruption=Interruption(was_interrupted=True),
    )
