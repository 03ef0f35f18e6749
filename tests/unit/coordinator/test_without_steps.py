"""Runs of no steps of reinforcement learning: an evaluation alone, and fine-tuning alone."""

import random

import pytest
from pydantic import ValidationError
from sqlmodel import Session, select
from tests.unit.coordinator.world import World, config

from warren_gateway.runs.submitting import job_row
from warren_gateway.stop_request import StopRequest
from warren_gateway.store.tables import Model, Run
from warren_schemas.config import TrainConfig
from warren_schemas.control import WorkerRole
from warren_schemas.episode import Completed, EpisodePurpose
from warren_schemas.events import EvaluationCompleted, RunOutcome, RunState, StateChanged
from warren_schemas.training import CloseModel, SaveState

SAMPLED = {"episodes": 12, "samples": 4, "temperature": 1.0}


def evaluation(**more: object) -> TrainConfig:
    return config(
        **{
            "algorithm": {},
            "checkpoint": {},
            "evaluation": SAMPLED,
            "limits": {"steps": 0, "episode_s": 50, "episode_attempts": 2},
            **more,
        }
    )


def reports(world: World) -> list[EvaluationCompleted]:
    return [e.body for e in world.events if isinstance(e.body, EvaluationCompleted)]


def outcome(world: World) -> RunOutcome | None:
    return [e.body for e in world.events if isinstance(e.body, StateChanged)][-1].outcome


@pytest.mark.parametrize("chaos", [0.0, 0.1], ids=["calm", "takeovers"])
@pytest.mark.parametrize("seed", range(5))
def test_a_base_model_is_evaluated_without_a_trainer(seed: int, chaos: float) -> None:
    world = World(evaluation(), random.Random(seed))
    state = world.drive(chaos)
    assert state.run_state is RunState.COMPLETED, world.error
    assert state.learning.ops.last == 0
    assert state.lease.epoch == 0, "no trainer was asked for"
    (report,) = reports(world)
    assert (report.n_episodes, report.when, report.version) == (12, "after", 0)
    assert outcome(world) is RunOutcome.EVALUATED


def test_its_mean_is_that_of_a_hand_count() -> None:
    world = World(evaluation(), random.Random(3))
    world.drive(0.0)
    rewards = {
        (ended.spec.group, ended.spec.member): ended.outcome.reward
        for ended in world.stream
        if isinstance(ended.outcome, Completed)
    }
    groups = {group for group, _ in rewards}
    assert (len(rewards), len(groups)) == (12, 3)
    indices = sorted({(e.spec.task.index) for e in world.stream})
    assert indices == [0, 1, 2], "each task is played by all of its samples"
    (report,) = reports(world)
    assert report.reward_mean == pytest.approx(sum(rewards.values()) / 12)


def test_it_waits_for_samplers_and_never_for_trainers() -> None:
    world = World(evaluation(), random.Random(1), away=WorkerRole.SAMPLER)
    world.decide()
    world.now_s += 10
    world.decide()
    assert "no sampler offers tiny" in (world.state.waiting.reason or "")
    world.away = None
    world.drive(0.0)
    assert outcome(world) is RunOutcome.EVALUATED


def trained() -> World:
    world = World(config(), random.Random(1))
    world.drive(0.0)
    return world


@pytest.mark.parametrize("chaos", [0.0, 0.03], ids=["calm", "takeovers"])
@pytest.mark.parametrize("seed", range(5))
def test_a_checkpoint_is_published_and_its_trainer_given_back(seed: int, chaos: float) -> None:
    before = trained()
    world = World(
        evaluation(resume_from={"run": "run_1"}),
        random.Random(seed),
        checkpoint_url="step-000006",
        checkpoints=before.checkpoints,
        notes=before.notes,
        weights_saved=before.weights_saved,
    )
    state = world.drive(chaos)
    assert state.run_state is RunState.COMPLETED, world.error
    (report,) = reports(world)
    assert (report.n_episodes, report.step) == (12, 6)
    assert report.version == before.checkpoints["step-000006"][1]
    assert any(isinstance(item, CloseModel) for item in world.endings)
    assert state.lease.holder is None
    assert not [op for op in world.applied.values() if isinstance(op.body, SaveState)]
    assert outcome(world) is RunOutcome.EVALUATED


def test_it_goes_on_after_a_pause_without_queueing() -> None:
    world = World(evaluation(), random.Random(1))
    world.decide()
    world.state.observed.stop_request = StopRequest.PAUSE
    world.decide()
    assert world.state.run_state is RunState.PAUSED
    world.state.observed.stop_request = None
    world.decide()
    assert world.state.run_state is RunState.RUNNING
    world.drive(0.0)
    assert [report.n_episodes for report in reports(world)] == [12]


def test_fine_tuning_alone_is_saved_and_counts_as_trained() -> None:
    tuned = config(
        algorithm={}, sft={"steps": 3, "episodes_per_step": 2}, limits={"steps": 0, "episode_s": 50}
    )
    world = World(tuned, random.Random(1))
    state = world.drive(0.02)
    assert state.run_state is RunState.COMPLETED, world.error
    assert outcome(world) is RunOutcome.TRAINED
    assert state.learning.policy.version_issued == 3
    assert any(isinstance(op.body, SaveState) for op in world.applied.values())
    assert all(e.spec.purpose is not EpisodePurpose.TRAIN for e in world.stream)


def test_its_job_is_none_for_the_scheduler() -> None:
    world = World(evaluation(), random.Random(1))
    with Session(world.engine) as session:
        run, model = session.exec(select(Run)).one(), session.exec(select(Model)).one()
        assert job_row(run, evaluation(), model).state == "over"
        resumed = evaluation(resume_from={"run": "run_1"})
        assert job_row(run, resumed, model).state == "queued"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"evaluation": None}, "nothing would be"),
        ({"evaluation": {"before": False}}, "no before and after"),
        ({"evaluation": {"episodes": 5, "samples": 2, "temperature": 1}}, "multiple of samples"),
        ({"evaluation": {"samples": 2}}, "all samples of a task are alike"),
        ({"algorithm": {"max_staleness": 4}}, "algorithm.max_staleness has no effect"),
        ({"optimizer": {"learning_rate": 0.5}}, "optimizer.learning_rate has no effect"),
        (
            {"source": {"kind": "recorded", "run": "run_2"}},
            "evaluation.episodes, evaluation.samples",
        ),
        ({"source": {"kind": "recorded", "run": "run_2"}, "sft": {}}, "leave source out"),
    ],
)
def test_what_would_have_no_effect_is_refused(changes: dict[str, object], reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        evaluation(**changes)


def test_any_config_of_training_can_be_made_one() -> None:
    of_training = config(
        sft={"steps": 3},
        optimizer={"learning_rate": 0.5},
        evaluation={"episodes": 8, "before": False, "every_steps": 2},
    )
    made = of_training.for_evaluation()
    assert made.is_evaluation
    assert made.begins_bare
    assert made.evaluation is not None
    assert made.evaluation.episodes == 8
    assert made.model == of_training.model
