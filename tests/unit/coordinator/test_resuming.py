"""A run that goes on from another run's checkpoint does what that run would have done."""

import random

import pytest
from tests.unit.coordinator.world import World, config

from warren_schemas.config import TrainConfig
from warren_schemas.events import Phase, RunOutcome, RunState, StateChanged, StepCompleted
from warren_schemas.training import KeepReference, OptimStep, PublishPolicy, SaveState


def one_config(steps: int, **changes: object) -> TrainConfig:
    return config(
        algorithm={
            "group_size": 4,
            "groups_per_step": 2,
            "max_staleness": 1,
            "advantage": "direct",
        },
        optimizer={"schedule": "cosine", "warmup_steps": 2, "learning_rate": 1.0},
        limits={"steps": steps, "episode_s": 50, "episode_attempts": 2},
        checkpoint={"every_steps": 3, "keep_last": 3},
        **changes,
    )


def finished(world: World) -> World:
    assert world.drive(0.0).run_state is RunState.COMPLETED
    return world


def steps_of(world: World) -> list[int]:
    bodies = [event.body for event in world.events]
    return [b.step for b in bodies if isinstance(b, StepCompleted) and b.phase is Phase.TRAINING]


def rates_of(world: World) -> list[float]:
    bodies = [world.applied[number].body for number in sorted(world.applied)]
    return [body.learning_rate for body in bodies if isinstance(body, OptimStep)]


def resumed(first: World, name: str, seed: int, **changes: object) -> World:
    return going_on(first, name, seed, one_config(9, resume_from={"run": "run_0"}, **changes))


def going_on(first: World, name: str, seed: int, settings: TrainConfig) -> World:
    return World(
        settings,
        random.Random(seed),
        rewards=(0.0, 1.0, 2.0, 3.0),
        checkpoints=dict(first.checkpoints),
        notes=dict(first.notes),
        checkpoint_url=name,
    )


@pytest.mark.parametrize("seed", range(4))
def test_steps_rates_and_versions_go_on_where_the_checkpoint_was(seed: int) -> None:
    whole = finished(World(one_config(9), random.Random(seed), rewards=(0.0, 1.0, 2.0, 3.0)))
    rest = finished(resumed(whole, "step-000003", seed + 100))
    n_before = whole.checkpoints["step-000003"][1]
    assert steps_of(whole) == list(range(1, 10))
    assert steps_of(rest) == list(range(4, 10))
    assert rates_of(rest) == pytest.approx(rates_of(whole)[n_before:])
    assert isinstance(rest.applied[1].body, PublishPolicy)
    assert set(rest.published) >= {n_before}
    assert rest.state.learning.policy.version_issued >= 9


def test_tasks_that_were_in_the_air_are_played_again() -> None:
    whole = finished(World(one_config(9), random.Random(1), rewards=(0.0, 1.0, 2.0, 3.0)))
    note = whole.notes["step-000003"]
    assert note is not None
    rest = finished(resumed(whole, "step-000003", 2))
    rollouts = rest.state.rollouts
    # Six tasks were trained on before, twelve after; which of them were early is in the note.
    assert rollouts.tasks_again == []
    assert rollouts.task_cursors["train/0"] >= 18
    again = note["tasks_again"]
    assert isinstance(again, list)
    assert note["task_cursors"] == {"train/0": 6 + len(again)}


def test_the_warm_up_and_what_came_before_are_not_done_again() -> None:
    sft, evaluation = {"steps": 3, "episodes_per_step": 4}, {"episodes": 5}
    settings = one_config(9, sft=sft, evaluation=evaluation)
    whole = finished(World(settings, random.Random(3), rewards=(0.0, 1.0, 2.0)))
    assert "sft-000003" not in whole.checkpoints, "deleted for newer ones, whatever their names"
    rest = finished(resumed(whole, "step-000003", 4, sft=sft, evaluation=evaluation))
    phases = {e.body.phase for e in rest.events if isinstance(e.body, StepCompleted)}
    assert phases == {Phase.TRAINING}
    assert steps_of(rest) == list(range(4, 10))


def test_a_kept_reference_is_not_replaced() -> None:
    algorithm: dict[str, object] = {"group_size": 4, "groups_per_step": 2, "kl": {}}
    whole = finished(World(config(algorithm=algorithm), random.Random(5)))
    kinds = [type(op.body) for op in whole.applied.values()]
    assert kinds.count(KeepReference) == 1
    settings = config(algorithm=algorithm, resume_from={"run": "run_0"})
    name = next(o.body.name for o in whole.applied.values() if isinstance(o.body, SaveState))
    rest = World(
        settings,
        random.Random(6),
        checkpoints=whole.checkpoints,
        notes=whole.notes,
        checkpoint_url=name,
    )
    assert KeepReference not in [type(op.body) for op in finished(rest).applied.values()]


@pytest.mark.slow
@pytest.mark.parametrize("evaluation", [None, {"episodes": 5}])
def test_a_checkpoint_of_the_warm_up_has_no_reference_yet(
    evaluation: dict[str, object] | None,
) -> None:
    """Not even the one after its last step: training, which keeps it, comes later."""
    changes: dict[str, object] = {
        "model": {"base": "tiny", "update": {"kind": "full"}},
        "algorithm": {"group_size": 4, "groups_per_step": 2, "kl": {}},
        "sft": {"steps": 4, "episodes_per_step": 4},
        "evaluation": evaluation,
        "checkpoint": {"every_steps": 2, "keep_last": 20},
    }
    whole = finished(World(config(**changes), random.Random(5)))
    for name, (op, _) in whole.checkpoints.items():
        before = [type(whole.applied[number].body) for number in range(1, op + 1)]
        rest = finished(
            World(
                config(**changes, resume_from={"run": "run_0"}),
                random.Random(6),
                checkpoints=dict(whole.checkpoints),
                notes=dict(whole.notes),
                checkpoint_url=name,
            )
        )
        after = [type(rest.applied[number].body) for number in sorted(rest.applied)]
        assert before.count(KeepReference) + after.count(KeepReference) == 1
    assert {
        "sft-000002",
        "sft-000004",
        "step-000002",
        "step-000006",
    } <= whole.checkpoints.keys()


def test_a_start_adapter_is_published_before_anybody_samples() -> None:
    model = {"base": "tiny", "update": {"kind": "lora", "start_adapter": "mine"}}
    world = finished(World(config(model=model), random.Random(7)))
    assert isinstance(world.applied[1].body, PublishPolicy)


@pytest.mark.parametrize("steps", [3, 6])
def test_a_run_that_has_nothing_left_to_do_ends_at_once(steps: int) -> None:
    """What the gateway could not see when it was submitted; it used to hold its trainer for ever."""
    whole = finished(World(one_config(9), random.Random(1), rewards=(0.0, 1.0, 2.0, 3.0)))
    settings = one_config(steps, resume_from={"run": "run_0"})
    rest = finished(going_on(whole, "step-000006", 2, settings))
    last = rest.events[-1].body
    assert isinstance(last, StateChanged) and last.reason is not None
    assert last.outcome is RunOutcome.NOTHING_TO_DO
    assert f"has 6 steps behind it, and limits.steps ({steps}) is the total" in last.reason
    assert f"--set limits.steps={6 + steps}" in last.reason
    assert not rest.stream and steps_of(rest) == []
    assert set(rest.checkpoints) >= {"step-000006"}


def test_a_reward_that_was_reached_before_the_checkpoint_ends_a_run_at_its_start() -> None:
    whole = finished(World(one_config(20), random.Random(1), rewards=(0.0, 1.0, 2.0, 3.0)))
    goal = {"steps": 40, "stop_at_reward": 0.5}
    settings = config(resume_from={"run": "run_0"}, limits=goal)
    rest = finished(going_on(whole, "step-000020", 2, settings))
    last = rest.events[-1].body
    assert isinstance(last, StateChanged) and last.reason is not None
    assert last.outcome is RunOutcome.NOTHING_TO_DO
    assert "step 20 have reached limits.stop_at_reward (0.5)" in last.reason
    assert not rest.stream


def test_what_a_resumed_run_learned_is_its_own() -> None:
    """Updates from before the checkpoint don't make a run that learns nothing a trained one."""
    whole = finished(World(one_config(9), random.Random(1), rewards=(0.0, 1.0, 2.0, 3.0)))
    rest = resumed(whole, "step-000006", 2)
    rest.rewards = (1.0,)
    last = finished(rest).events[-1].body
    assert isinstance(last, StateChanged)
    assert last.outcome is RunOutcome.NOTHING_LEARNED
    assert rest.state.learning.steps.n_updates == 6


def test_the_last_checkpoint_has_the_run_s_last_step_and_lists_say_the_same() -> None:
    whole = finished(World(one_config(8), random.Random(1), rewards=(0.0, 1.0, 2.0, 3.0)))
    assert "step-000008" in whole.checkpoints
    assert whole.state.learning.checkpoints.marks[-1].step == 8
    assert whole.state.learning.policy.published == [(step, step) for step in range(1, 9)]
