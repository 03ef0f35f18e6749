"""Decisions are functions of the state: no store, no broker, no clock, and nothing is replaced."""

from collections.abc import Sequence

import pytest
from tests.unit.coordinator.world import config

from warren_gateway.coordinator import answering, decisions
from warren_gateway.coordinator.lease import job, trainer_lease
from warren_gateway.coordinator.restoring import restore
from warren_gateway.coordinator.rollouts.source import Live
from warren_gateway.coordinator.state.coordinator import CoordinatorState, Progress
from warren_gateway.store.tables import Model, Run
from warren_schemas.control import Heartbeat, WorkerRole
from warren_schemas.envelope import Envelope
from warren_schemas.episode import StartEpisode
from warren_schemas.events import Phase, RunState
from warren_schemas.ids import WorkerId
from warren_schemas.training import ModelSpec, OpDone, OpenModel, OpResult

NOW_S = 1000.0


def test_a_run_from_its_first_decision_to_its_first_groups() -> None:
    state = _new()
    decisions.decide(state, _nobody)
    assert state.stage.phase is Phase.OPENING

    assert decisions.wants_trainer(state, _nobody)
    job.send(state)
    trainer_lease.grant(state, WorkerId("trainer"))
    answering.absorb_answer(state, _opened(state))
    decisions.decide(state, _an_env_worker)

    assert (state.run_state, state.stage.phase) == (RunState.RUNNING, Phase.TRAINING)
    assert [group.task.index for group in state.change.admitted] == [0, 1, 2, 3]
    assert len(_sent(state, OpenModel)) == 1
    assert len(_sent(state, StartEpisode)) == state.rollouts.n_started_now == 4 * 4


def test_the_same_state_decides_the_same() -> None:
    one, other = _running(), _running()
    assert [_facts(item) for item in _sent(one, StartEpisode)] == [
        _facts(item) for item in _sent(other, StartEpisode)
    ]
    assert one.take_change().run == other.take_change().run


def test_what_is_stored_is_what_another_coordinator_goes_on_with() -> None:
    state = _running()
    stored = state.take_change().run["progress"]
    again = Progress.model_validate(stored)
    assert again.model_dump() == stored
    assert again.stage_number == state.stage_number
    assert again.rollouts.n_admitted == 4
    assert again.rollouts.groups == {}  # these have rows of their own


def test_a_cancelled_run_closes_what_is_in_flight() -> None:
    state = _running()
    state.take_change()
    state.observed.is_cancel_requested = True
    decisions.decide(state, _nobody)
    assert state.run_state is RunState.CANCELLED
    assert len(state.change.closed) == 4 and not state.rollouts.groups


@pytest.mark.parametrize(
    "stray",
    [{"number": 1}, {"number": 2**62}, {"model": "model_2", "number": 0}, {"model": "model_2"}],
)
def test_an_answer_to_an_op_that_was_not_issued_or_is_another_model_s_is_dropped(
    stray: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    state = _running()
    state.take_change()
    answering.absorb_answer(state, _opened(state).model_copy(update={"number": 1, **stray}))
    decisions.decide(state, _nobody)
    assert (state.run_state, state.change.answers) == (RunState.RUNNING, {})
    assert not state.learning.ops.early_answers
    assert "is dropped" in caplog.text


def _new() -> CoordinatorState:
    settings = config()
    spec = ModelSpec(base_model="tiny", update=settings.model.update)
    run = Run(
        id="run_1", owner="me", name="r", config=settings.model_dump(mode="json"),
        state="queued", n_steps=settings.limits.steps, created_s=NOW_S,
    )  # fmt: skip
    model = Model(id="model_1", run_id=run.id, base_model="tiny", spec=spec.model_dump(mode="json"))
    return restore(run, model, [], Live(), NOW_S)


def _running() -> CoordinatorState:
    state = _new()
    job.send(state)
    trainer_lease.grant(state, WorkerId("trainer"))
    answering.absorb_answer(state, _opened(state))
    decisions.decide(state, _an_env_worker)
    return state


def _opened(state: CoordinatorState) -> OpResult:
    return OpResult(
        envelope=Envelope(run=state.run),
        model=state.model,
        epoch=state.lease.epoch,
        number=0,
        outcome=OpDone(version=0),
    )


def _nobody(role: WorkerRole | None) -> Sequence[Heartbeat]:
    return ()


def _an_env_worker(role: WorkerRole | None) -> Sequence[Heartbeat]:
    if role is not WorkerRole.ENVIRONMENT:
        return ()
    heartbeat = Heartbeat(
        envelope=Envelope(), worker=WorkerId("env"), role=role, offers=("guess",), interval_s=2.0,
        capacity=64, in_flight=0,
    )  # fmt: skip
    return (heartbeat,)


def _sent(state: CoordinatorState, kind: type[StartEpisode] | type[OpenModel]) -> list[object]:
    return [i for items in state.change.posts.values() for i in items if isinstance(i, kind)]


def _facts(item: object) -> tuple[object, ...]:
    """All but the ids, which are drawn."""
    assert isinstance(item, StartEpisode)
    spec = item.spec
    return spec.member, spec.task, spec.seed, spec.policy, spec.sampling, item.envelope.deadline_s
