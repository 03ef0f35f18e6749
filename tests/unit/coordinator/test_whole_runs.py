"""Whole runs through the coordinator's logic, in every order that a seed can think of.

Whatever happens, the run ends, no trajectory is trained on twice, none is older than was allowed,
the op log is the same whichever trainer applied it, and the checkpoint that a trainer has to begin
with is there.
"""

import random
from collections import Counter

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sqlmodel import Session, select
from tests.unit.coordinator.world import World, config

from warren_gateway.coordinator.lease import trainer_lease
from warren_gateway.position import Position
from warren_gateway.store.tables import GroupRow
from warren_schemas.episode import Completed, EpisodePurpose
from warren_schemas.events import (
    EvaluationCompleted,
    Phase,
    RunState,
    StateChanged,
    StepCompleted,
    WarningRaised,
)
from warren_schemas.training import ForwardBackward, OptimStep

WHOLE = {
    "algorithm": {
        "group_size": 4,
        "groups_per_step": 2,
        "max_staleness": 1,
        "kl": {"coefficient": 0.1},
        "credit": {"kind": "turn"},
    },
    "sft": {"steps": 3, "episodes_per_step": 4},
    "evaluation": {"episodes": 5, "every_steps": 2},
    "checkpoint": {"every_steps": 1, "keep_every": 4, "keep_best": 1},
}


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10_000), chaos=st.sampled_from([0.0, 0.01, 0.03]))
def test_a_run_ends_whatever_happens(seed: int, chaos: float) -> None:
    world = World(config(**WHOLE), random.Random(seed), failure_rate=0.05 if chaos else 0.0)

    state = world.drive(chaos)
    # Where chance kills one trainer after another at the same op, giving up is the right end.
    assume(state.lease.n_losses_in_vain < trainer_lease.LOSSES_IN_VAIN)

    assert state.run_state is RunState.COMPLETED, state
    assert set(world.trained_episodes.values()) <= {1}
    assert state.learning.batches.max_staleness <= world.config.algorithm.max_staleness
    assert sorted(world.applied) == list(range(1, state.learning.ops.last + 1))
    bodies = [event.body for event in world.events]
    steps = [b.step for b in bodies if isinstance(b, StepCompleted) and b.phase is Phase.TRAINING]
    assert steps == list(range(1, world.config.limits.steps + 1))
    assert world.step_shown == (world.config.limits.steps, world.config.limits.steps)
    evaluations = Counter(b.when for b in bodies if isinstance(b, EvaluationCompleted))
    assert evaluations["before"] == evaluations["after"] == 1
    assert world.listed_checkpoints == set(world.checkpoints)
    versions = {
        b.step: b.version
        for b in bodies
        if isinstance(b, StepCompleted) and b.phase is Phase.TRAINING
    }
    assert dict(state.learning.policy.published).items() <= {0: 3, **versions}.items()
    for name, (_, version) in world.checkpoints.items():
        assert versions[int(name.removeprefix("step-"))] == version
    assert f"step-{world.config.limits.steps:06d}" in world.checkpoints
    finals = [b for b in bodies if isinstance(b, StateChanged) and b.state.is_final]
    assert finals == [bodies[-1]]


@pytest.mark.slow
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10_000), failure_rate=st.sampled_from([0.0, 0.1]))
def test_what_became_of_an_episode_is_said_of_the_ending_that_counted(
    seed: int, failure_rate: float
) -> None:
    """However often it was tried, and however often its endings lie in the stream."""
    algorithm = {
        "group_size": 4,
        "groups_per_step": 2,
        "groups": {"kind": "quorum", "max_failed_members": 1},
    }
    world = World(config(algorithm=algorithm), random.Random(seed), failure_rate=failure_rate)

    world.drive(chaos=0.01)

    with Session(world.engine) as session:
        rows = session.exec(select(GroupRow)).all()
    for row in rows:
        for member, outcome in enumerate(row.outcomes or []):
            if "position" not in outcome:
                assert outcome["fate"] not in ("trained", "evaluated")
                continue
            counted = world.stream[Position.of(outcome["position"]).offset]
            assert (counted.spec.group, counted.spec.member) == (row.id, member)
            assert counted.envelope.attempt == row.attempts[member]
            is_completed = isinstance(counted.outcome, Completed)
            assert is_completed == ("reward" in outcome)
            assert is_completed or outcome["fate"] == "failed"


@pytest.mark.slow
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10_000), staleness=st.integers(0, 3))
def test_staleness_is_bounded_by_pacing_alone(seed: int, staleness: int) -> None:
    algorithm = {"group_size": 4, "groups_per_step": 2, "max_staleness": staleness}
    world = World(config(algorithm=algorithm), random.Random(seed))

    state = world.drive(chaos=0.0)

    assert state.learning.batches.max_staleness <= staleness
    if staleness == 0:
        assert "stale" not in state.rollouts.dropped_groups


def test_a_batch_without_signal_changes_no_weights() -> None:
    world = World(config(), random.Random(3), rewards=(1.0,))

    state = world.drive(chaos=0.0)

    assert state.run_state is RunState.COMPLETED
    assert not [
        op for op in world.applied.values() if isinstance(op.body, OptimStep | ForwardBackward)
    ]
    assert state.learning.steps.n_updates == 0


def test_a_run_whose_episodes_always_fail_ends_with_the_reason() -> None:
    world = World(config(), random.Random(1), failure_rate=1.0)

    state = world.drive(chaos=0.0)

    assert state.run_state is RunState.FAILED
    last = world.events[-1].body
    assert isinstance(last, StateChanged)
    assert last.reason == "episodes fail: it broke"
    [told] = [e.body.message for e in world.events if isinstance(e.body, WarningRaised)]
    assert told.startswith("an episode of guess failed: it broke; the run goes on")


@pytest.mark.slow
def test_an_evaluation_of_which_every_episode_fails_is_passed_over() -> None:
    world = World(
        config(evaluation={"episodes": 4}), random.Random(1), failing=EpisodePurpose.EVALUATE
    )

    state = world.drive(chaos=0.0)

    assert state.run_state is RunState.COMPLETED
    assert state.rollouts.reward_before is state.rollouts.reward_after is None
    bodies = [event.body for event in world.events]
    assert not [body for body in bodies if isinstance(body, EvaluationCompleted)]
    told = [body.message for body in bodies if isinstance(body, WarningRaised)]
    for when in ("before", "after"):
        assert any(f"no episode of the evaluation {when} training ended" in text for text in told)


@pytest.mark.slow
def test_episodes_are_counted_once_however_often_the_run_is_taken_over() -> None:
    world = World(config(), random.Random(1))
    world.decide()
    while not world.state.is_over:
        world.move()
        if not world.state.is_over and world.rng.random() < 0.2:
            world.load()

    played = {item.envelope.episode for item in world.stream}
    assert world.state.rollouts.n_episodes == len(played)
    assert world.state.rollouts.n_tokens == 2 * len(played)


def test_what_a_lost_trainer_had_answered_is_no_part_of_a_step_s_metrics() -> None:
    world = World(config(checkpoint={"every_steps": 100}), random.Random(1))
    world.decide()
    while not any(pending.answers for pending in world.state.learning.steps.pending):
        world.move()
        assert not world.state.is_over
    world.kill_trainer()
    world.answers.clear()

    world.drive(chaos=0.0)

    steps = [event.body for event in world.events if isinstance(event.body, StepCompleted)]
    losses = [step.metrics["policy/loss"] for step in steps if "policy/loss" in step.metrics]
    assert losses and set(losses) == {0.5}


def test_a_cancelled_run_tells_everybody_and_asks_for_nothing_more() -> None:
    world = World(config(), random.Random(1))
    world.decide()
    world.state.observed.is_cancel_requested = True
    n_started = len(world.episodes)

    world.decide()

    assert world.state.run_state is RunState.CANCELLED
    assert [item.kind for item in world.endings] == ["close_model", "run_ended"]
    assert len(world.episodes) == n_started


@pytest.mark.parametrize(
    ("is_worker_lost", "limit"),
    [(False, trainer_lease.GRANTS_IN_VAIN), (True, trainer_lease.LOSSES_IN_VAIN)],
)
def test_a_model_that_kills_every_trainer_ends_the_run(is_worker_lost: bool, limit: int) -> None:
    """Sooner where its worker lives on than where whole workers vanish, as machines do."""
    world = World(config(), random.Random(1))
    for _ in range(4 * limit):
        world.decide()
        world.decide()  # the trainer says by now that it has the lease
        if is_worker_lost:
            world.kill_trainer()
        else:
            world.lose_model()

    assert world.state.run_state is RunState.FAILED
    last = world.events[-1].body
    assert isinstance(last, StateChanged) and last.reason is not None
    assert last.reason.startswith(f"{limit} trainers in a row died")


@pytest.mark.parametrize("is_worker_lost", [False, True])
def test_a_model_with_nothing_to_do_is_not_what_its_trainers_die_of(is_worker_lost: bool) -> None:
    """A neighbour's op is, perhaps."""
    limits = {"steps": 6, "episode_s": 50_000, "episode_attempts": 2}
    world = World(config(limits=limits), random.Random(1))
    for _ in range(2 * trainer_lease.LOSSES_IN_VAIN):
        world.decide()
        while world.answers:
            world.read_mail()
        assert world.state.lease.is_opened
        if is_worker_lost:
            world.kill_trainer()
        else:
            world.lose_model()
    assert not world.state.is_over, world.error


def test_a_known_checkpoint_outlives_saves_that_were_asked_for_before_it_was_known() -> None:
    """Three saves are on their way; the gateway hears of the first, and the trainer is lost."""
    algorithm = {"group_size": 4, "groups_per_step": 2, "max_staleness": 2, "advantage": "direct"}
    settings = config(algorithm=algorithm, checkpoint={"every_steps": 1, "keep_last": 2})
    world = World(settings, random.Random(1), rewards=(0.0, 1.0, 2.0, 3.0))
    world.decide()
    for _ in range(200):
        world.finish_episode()
        world.read_mail()
    assert len(world.state.learning.steps.pending) == 3
    while world.trainer is not None and world.trainer.waiting:
        world.train()
    assert set(world.checkpoints) == {"step-000001", "step-000002", "step-000003"}
    first, _ = world.checkpoints["step-000001"]
    world.answers = [answer for answer in world.answers if answer.number <= first]
    while world.answers:
        world.read_mail()
    assert world.state.learning.checkpoints.newest_url == "step-000001"
    world.kill_trainer()

    state = world.drive(chaos=0.0)

    assert state.run_state is RunState.COMPLETED
    assert world.listed_checkpoints == set(world.checkpoints)
    assert set(world.checkpoints) == {"step-000005", "step-000006"}
