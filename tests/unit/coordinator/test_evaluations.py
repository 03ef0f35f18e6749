"""Every evaluation that falls due happens once, with the version that it was due for.

Whatever the pace of evaluations, of training and of the samplers, and whichever gateway drives the run.
Where the version is no longer kept, the next one that is stands in, and the report says so.
"""

import random

import pytest
from tests.unit.coordinator.world import World, config

from warren_schemas.config import TrainConfig
from warren_schemas.episode import EpisodePurpose
from warren_schemas.events import EvaluationCompleted, Phase, RunState, StepCompleted

STEPS = 8


class PacedWorld(World):
    """Evaluations end at once, or hardly at all while there is anything else to do."""

    is_slow = False

    def choose_episode(self) -> int | None:
        evaluates = [e.spec.purpose is EpisodePurpose.EVALUATE for e in self.episodes]
        is_training = self.state.learning.steps.n_published < self.config.limits.steps
        if self.is_slow and is_training and all(evaluates) and self.rng.random() > 0.02:
            return None
        return evaluates.index(not self.is_slow) if len(set(evaluates)) > 1 else 0


def settings(
    every_steps: int, max_staleness: int, *, steps: int = STEPS, **more: object
) -> TrainConfig:
    return config(
        algorithm={"group_size": 2, "groups_per_step": 1, "max_staleness": max_staleness},
        evaluation={"episodes": 3, "every_steps": every_steps, **more},
        limits={"steps": steps, "episode_s": 50, "episode_attempts": 2},
    )


def world_of(settings: TrainConfig, seed: int, *, is_slow: bool, **fields: object) -> World:
    world = PacedWorld(settings, random.Random(seed), rewards=(0.0, 1.0), **fields)  # pyright: ignore[reportArgumentType]
    world.is_slow = is_slow
    return world


def evaluations(world: World) -> list[EvaluationCompleted]:
    bodies = [event.body for event in world.events]
    return [b for b in bodies if isinstance(b, EvaluationCompleted) and b.when == "during"]


def versions(world: World) -> dict[int, int]:
    """By step of training, the version that it led to."""
    bodies = [event.body for event in world.events]
    steps = [b for b in bodies if isinstance(b, StepCompleted) and b.phase is Phase.TRAINING]
    return {body.step: body.version for body in steps}


@pytest.mark.slow
@pytest.mark.parametrize("is_slow", [False, True], ids=["fast", "slow"])
@pytest.mark.parametrize("max_staleness", [0, 1, 3])
@pytest.mark.parametrize("every_steps", [1, 2, 3, 7])
@pytest.mark.parametrize("chaos", [0.0, 0.03], ids=["calm", "takeovers"])
def test_each_happens_once_with_its_own_version(
    every_steps: int, max_staleness: int, is_slow: bool, chaos: float
) -> None:
    world = world_of(settings(every_steps, max_staleness), 1, is_slow=is_slow)
    state = world.drive(chaos)
    assert state.run_state is RunState.COMPLETED, world.error
    assert_each_was_told(world, every_steps)


def assert_each_was_told(world: World, every_steps: int) -> None:
    led_to, found = versions(world), evaluations(world)
    due = range(every_steps, STEPS, every_steps)
    assert [body.step for body in found] == list(due)
    assert {body.step: body.version for body in found} == {step: led_to[step] for step in due}
    assert {body.due_version for body in found} == {None}


@pytest.mark.slow
@pytest.mark.parametrize("is_slow", [False, True], ids=["fast", "slow"])
@pytest.mark.parametrize("max_staleness", [0, 1, 3])
@pytest.mark.parametrize("every_steps", [1, 2, 3, 7])
def test_each_survives_a_takeover_before_each_of_its_moves(
    every_steps: int, max_staleness: int, is_slow: bool
) -> None:
    world = world_of(settings(every_steps, max_staleness), 2, is_slow=is_slow)
    taken_over: set[int] = set()
    world.decide()
    while not world.state.is_over:
        evaluation = world.state.rollouts.evaluation
        if evaluation is not None and evaluation.when == "during":
            taken_over.update(due.step for due in evaluation.due)
            world.load()
        world.move()
    assert taken_over == set(range(every_steps, STEPS, every_steps))
    assert_each_was_told(world, every_steps)


def test_what_is_due_at_the_last_step_is_the_evaluation_after_training_or_its_own() -> None:
    for after in (True, False):
        world = world_of(settings(2, 1, steps=6, after=after), 1, is_slow=True)
        world.drive(0.0)
        assert [body.step for body in evaluations(world)] == ([2, 4] if after else [2, 4, 6])


@pytest.mark.slow
@pytest.mark.parametrize("chaos", [0.0, 0.01], ids=["calm", "takeovers"])
def test_where_a_version_is_gone_the_next_one_stands_in_and_says_so(chaos: float) -> None:
    """Training is many times faster than evaluation, so versions go before their turn comes."""
    n_steps = 50
    world = world_of(settings(1, 3, steps=n_steps), 4, is_slow=True)
    world.rewards = tuple(n / 10 for n in range(100))
    state = world.drive(chaos)
    assert state.run_state is RunState.COMPLETED, world.error
    led_to, found = versions(world), evaluations(world)
    assert [body.step for body in found] == list(range(1, n_steps))
    for body in found:
        assert body.version >= led_to[body.step]
        is_own = body.version == led_to[body.step]
        assert body.due_version == (None if is_own else led_to[body.step])
        assert body.metrics["versions_late"] == body.version - led_to[body.step]
    assert any(body.due_version is not None for body in found)
    assert any(body.metrics["waiting"] for body in found)


def test_those_that_fall_to_one_version_are_answered_by_the_same_episodes() -> None:
    """Of steps without an update, one policy is in force after all of them."""
    world = world_of(settings(1, 3, steps=6), 1, is_slow=True)
    world.rewards = (1.0,)
    world.drive(0.0)
    assert [(b.step, b.version, b.due_version) for b in evaluations(world)] == [
        (step, 0, None) for step in range(1, 6)
    ]
    evaluated = {e.spec.group for e in world.stream if e.spec.purpose is EpisodePurpose.EVALUATE}
    assert len(evaluated) < 3 * (1 + 5 + 1)


def test_a_resumed_run_evaluates_the_first_tasks_also_where_some_were_in_flight() -> None:
    first = world_of(settings(1, 1), 1, is_slow=True)
    first.decide()
    while not any(e.spec.purpose is EpisodePurpose.EVALUATE for e in first.episodes) or (
        "step-000006" not in first.checkpoints
    ):
        first.move()
    again = first.notes["step-000006"]
    assert again is not None
    assert all(task[0] != "evaluate" for task in again["tasks_again"])  # pyright: ignore
