"""Runs whose next tasks follow from what their policy has solved, while gateways and trainers die."""

import random
from collections.abc import Sequence
from statistics import fmean
from typing import Any

import pytest
from sqlmodel import Session, col, select
from tests.unit.coordinator.world import World, config

from warren_gateway.coordinator.rollouts.curricula.choice import estimates
from warren_gateway.store.tables import GroupRow
from warren_schemas.config import Curriculum, TrainConfig
from warren_schemas.episode import Completed, EpisodePurpose, EpisodeSpec, Failed
from warren_schemas.events import RunState, StepCompleted

N_LEVELS = 5
LEVELS = {"over": "levels", "n": N_LEVELS, "half_life_groups": 2.0}
TASKS = {"over": "tasks", "n": 6, "half_life_groups": 2.0}


class LearningWorld(World):
    """A policy that can do one level more after every four versions: below it, it solves all, and at it, half."""

    playing: EpisodeSpec | None = None

    def choose_episode(self) -> int | None:
        chosen = super().choose_episode()
        if chosen is not None:
            self.playing = self.episodes[chosen].spec
        return chosen

    def _outcome(self, purpose: EpisodePurpose) -> Completed | Failed:
        assert self.playing is not None
        task = self.playing.task
        level = task.index % N_LEVELS if task.level is None else task.level
        skill = self.playing.policy.min_version // 4
        is_solved = level < skill or (level == skill and self.playing.member % 2 == 0)
        return Completed(reward=float(is_solved))


def settings(curriculum: dict[str, Any] | None, **changes: object) -> TrainConfig:
    base: dict[str, object] = {
        "environments": [{"name": "guess", "curriculum": curriculum}],
        "algorithm": {"group_size": 4, "groups_per_step": 4, "max_staleness": 0},
        "limits": {"steps": 20, "episode_s": 50.0},
    }
    return config(**{**base, **changes})


def played(of: TrainConfig, seed: int, chaos: float = 0.0) -> LearningWorld:
    world = LearningWorld(of, random.Random(seed))
    assert world.drive(chaos).run_state is RunState.COMPLETED, world.error
    return world


def groups(world: World, purpose: str = "train") -> Sequence[GroupRow]:
    with Session(world.engine) as session:
        query = select(GroupRow).where(GroupRow.purpose == purpose)
        return session.exec(query.order_by(col(GroupRow.number))).all()


def choices(world: World) -> list[tuple[int, int | None]]:
    return [(group.task_index, group.level) for group in groups(world)]


def reported(world: World, tag: str) -> list[float]:
    bodies = [event.body for event in world.events]
    return [b.metrics[tag] for b in bodies if isinstance(b, StepCompleted) and tag in b.metrics]


def test_levels_rise_with_what_the_policy_can_do() -> None:
    world = played(settings(LEVELS), 1)
    levels = reported(world, "curriculum/level")
    assert len(levels) == 20
    assert fmean(levels[-5:]) > fmean(levels[2:7]) + 0.5
    assert reported(world, "curriculum/solve_rate")[-1] > 0.5
    assert reported(world, "curriculum/tried_frac")[-1] == 1.0
    last = [reported(world, f"curriculum/probability/{level}")[-1] for level in range(N_LEVELS)]
    assert sum(last) == pytest.approx(1.0)
    assert max(last) > 1.5 * last[0], "the first level is mastered"
    plain = reported(played(settings({**LEVELS, "uniform": 1.0}), 1), "curriculum/level")
    assert abs(fmean(plain[-5:]) - (N_LEVELS - 1) / 2) < 1.0


def test_more_of_what_is_trained_on_carries_a_signal() -> None:
    with_one, without = (
        fmean(reported(played(settings(of), 2), "group/all_same_frac"))
        for of in (LEVELS, {**LEVELS, "uniform": 1.0})
    )
    assert with_one < without - 0.1


@pytest.mark.parametrize("curriculum", [LEVELS, TASKS])
@pytest.mark.parametrize("seed", range(3))
def test_choices_are_the_same_however_often_the_gateway_is_killed(
    curriculum: dict[str, Any], seed: int
) -> None:
    """On-policy, a step's choices follow from the steps before, whatever the order in which episodes end."""
    calm = played(settings(curriculum), seed)
    rough = LearningWorld(settings(curriculum), random.Random(seed + 100))
    rough.decide()
    n_killed = 0
    while not rough.state.is_over:
        if rough.rng.random() < 0.1:
            known = rough.state.rollouts.curricula
            rough.load()
            assert rough.state.rollouts.curricula == known
            n_killed += 1
        rough.move()
    assert n_killed > 20
    assert choices(rough) == choices(calm)
    assert len(set(choices(calm))) > 4


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_every_group_tells_once_whatever_dies(seed: int) -> None:
    """With a half-life without end, the estimates are the counts of what was closed."""
    endless = {**LEVELS, "half_life_groups": 1e12}
    of = settings(
        endless,
        algorithm={"group_size": 4, "groups_per_step": 4, "max_staleness": 2},
        limits={"steps": 20, "episode_s": 50.0, "episode_attempts": 9, "failed_groups": 999},
    )
    world = played(of, seed, chaos=0.02)
    known = world.state.rollouts.curricula["0"]
    n_played = [0] * N_LEVELS
    for group in groups(world):
        assert group.level is not None
        told = [outcome for outcome in group.outcomes or () if "reward" in outcome]
        n_played[group.level] += len(told)
    assert known.played == pytest.approx(n_played)


def test_tasks_that_are_chosen_are_played_again_from_the_same_state() -> None:
    world = played(settings(TASKS), 3)
    seeds: dict[int, set[int]] = {}
    for item in world.stream:
        seeds.setdefault(item.spec.task.index, set()).add(item.spec.seed)
        assert item.spec.task.level is None
    assert seeds.keys() == set(range(6))
    assert all(len(of_task) == 1 for of_task in seeds.values())


def test_evaluations_and_demonstrations_play_all_levels_by_turns() -> None:
    changes = {"evaluation": {"episodes": 10}, "sft": {"steps": 2, "episodes_per_step": 5}}
    world = played(settings(LEVELS, limits={"steps": 2}, **changes), 4)
    for purpose in ("evaluate", "demonstrate"):
        assert {group.level for group in groups(world, purpose)} == set(range(N_LEVELS))
        assert all(group.level == group.task_index % N_LEVELS for group in groups(world, purpose))


def test_without_a_curriculum_nothing_is_kept_and_nothing_is_reported() -> None:
    world = played(settings(None, limits={"steps": 3}), 5)
    assert world.state.rollouts.curricula == {}
    assert [index for index, _ in choices(world)] == list(range(12))
    assert {level for _, level in choices(world)} == {None}
    tags = {
        tag for e in world.events if isinstance(e.body, StepCompleted) for tag in e.body.metrics
    }
    assert not any(tag.startswith("curriculum/") for tag in tags)


def test_several_environments_have_curricula_of_their_own() -> None:
    both = [{"name": "guess", "curriculum": LEVELS}, {"name": "other", "curriculum": TASKS}]
    world = played(settings(None, environments=both, limits={"steps": 6}), 6)
    assert world.state.rollouts.curricula.keys() == {"0", "1"}
    assert len(reported(world, "curriculum/env/guess/level")) == 6
    assert len(reported(world, "curriculum/env/other/solve_rate")) == 6
    assert {group.level is None for group in groups(world) if group.environment == 1} == {True}


def test_a_run_that_resumes_goes_on_with_what_was_known() -> None:
    first = played(settings(LEVELS, limits={"steps": 6}, checkpoint={"every_steps": 6}), 7)
    of = settings(LEVELS, limits={"steps": 9}, resume_from={"run": "run_0"})
    rest = LearningWorld(
        of, random.Random(8), checkpoints=dict(first.checkpoints), notes=dict(first.notes),
        checkpoint_url="step-000006",
    )  # fmt: skip
    while not reported(rest, "curriculum/tried_frac"):
        rest.move() if rest.state.revision else rest.decide()
    assert reported(rest, "curriculum/tried_frac")[0] == 1.0


def test_estimates_of_another_number_of_levels_are_not_taken_over() -> None:
    world = LearningWorld(settings(LEVELS), random.Random(9))
    rollouts = world.state.rollouts
    estimates(rollouts, 0, Curriculum(n=5)).played[3] = 7.0
    assert estimates(rollouts, 0, Curriculum(n=5)).played == [0, 0, 0, 7, 0]
    assert estimates(rollouts, 0, Curriculum(n=3)).played == [0, 0, 0]
