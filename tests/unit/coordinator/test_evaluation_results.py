"""The results of evaluations are what a hand count of their episodes gives, whoever drove the run in between."""

import random
from collections import defaultdict
from statistics import fmean

import pytest
from sqlmodel import Session, col, select
from tests.unit.coordinator.test_without_steps import evaluation, outcome, reports
from tests.unit.coordinator.world import World, config

from warren_gateway.evaluations import scoring
from warren_gateway.evaluations.samples import Sample, samples_of, task_key
from warren_gateway.stop_request import StopRequest
from warren_gateway.store.tables import EvaluationRow, GroupRow
from warren_schemas.episode import Completed
from warren_schemas.events import EvaluationCompleted, RunOutcome, RunState, StateChanged
from warren_schemas.http import EvaluationState


def rows(world: World) -> list[EvaluationRow]:
    with Session(world.engine, expire_on_commit=False) as session:
        return list(session.exec(select(EvaluationRow).order_by(col(EvaluationRow.number))))


def samples(world: World, number: int = 1) -> list[Sample]:
    with Session(world.engine) as session:
        groups = session.exec(select(GroupRow).where(col(GroupRow.evaluation) == number)).all()
        return list(samples_of(groups, world.config))


@pytest.mark.parametrize("seed", range(4))
def test_they_equal_a_hand_count(seed: int) -> None:
    world = World(evaluation(), random.Random(seed), failure_rate=0.4)
    world.drive(0.0)
    members: dict[tuple[int, int], float] = {}
    by_task: dict[int, list[float]] = defaultdict(list)
    for ended in world.stream:
        if isinstance(ended.outcome, Completed):
            members[ended.spec.task.index, ended.spec.member] = ended.outcome.reward
    for (task, _), reward in members.items():
        by_task[task].append(reward)
    found = scoring.scores(samples(world), 4, 1.0)
    rewards = [reward for of_task in by_task.values() for reward in of_task]
    assert (found.n_tasks, found.n_episodes) == (len(by_task), len(rewards))
    assert found.n_episodes + found.n_failed == 12
    assert found.reward_mean == pytest.approx(fmean(rewards))
    assert found.pass_at_k[0].value == pytest.approx(
        fmean(fmean(reward >= 1.0 for reward in of_task) for of_task in by_task.values())
    )
    full = [of_task for of_task in by_task.values() if len(of_task) == 4]
    passes = {one.k: one for one in found.pass_at_k}
    assert (4 in passes) == bool(full)
    if full:
        assert passes[4].n_tasks == len(full)
        assert passes[4].value == pytest.approx(fmean(max(of_task) >= 1.0 for of_task in full))


def group_of_task_3(environment: int) -> GroupRow:
    return GroupRow(
        id="g", run_id="r", number=1, purpose="evaluation", environment=environment, task_index=0,
        task_number=3, n_members=1, min_version=0, deadline_s=0.0, attempts=[1],
    )  # fmt: skip


def test_the_same_row_of_two_data_sets_is_two_tasks() -> None:
    environment = config().environments[0].model_dump()
    both = [{**environment, "dataset": name} for name in ("ann/one", "ann/two")]
    of_both = config(environments=both)
    keys = {task_key(group_of_task_3(place), of_both) for place in (0, 1)}
    assert len(keys) == 2


def test_a_task_with_an_id_is_the_same_where_the_data_has_moved_it() -> None:
    one, moved, other = (group_of_task_3(0) for _ in range(3))
    moved.task_number = 8
    assert task_key(one, config()) != task_key(moved, config()), "told by its number"
    one.task_id = moved.task_id = "apple"
    other.task_id = "pear"
    keys = {task_key(group, config()) for group in (one, moved)}
    assert len(keys) == 1
    assert task_key(other, config()) not in keys


def test_tasks_that_call_themselves_the_same_are_told_apart_by_their_numbers() -> None:
    groups = [group_of_task_3(0) for _ in range(4)]
    for group, number, told in zip(groups, (3, 8, 3, 5), ("x", "x", "x", "y"), strict=True):
        group.task_number, group.task_id = number, told
        group.outcomes = [{"fate": "evaluated", "reward": 1.0}]
    found = list(samples_of(groups, config()))
    assert [sample.task_id for sample in found] == [
        "x (train/3)",
        "x (train/8)",
        "x (train/3)",
        "y",
    ]
    assert [sample.task == found[0].task for sample in found] == [True, False, True, False]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_takeovers_change_nothing_of_what_is_counted(seed: int) -> None:
    settings = config(
        evaluation={"episodes": 6, "samples": 2, "temperature": 1.0, "every_steps": 2}
    )
    world = World(settings, random.Random(seed), failure_rate=0.1)
    assert world.drive(0.05).run_state is RunState.COMPLETED, world.error
    told = [e.body for e in world.events if isinstance(e.body, EvaluationCompleted)]
    by_place = {(body.when, body.step): body for body in told}
    found = rows(world)
    assert [row.number for row in found] == list(range(1, len(found) + 1))
    assert {row.state for row in found} == {"complete"}
    for row in found:
        body, counted = (
            by_place[row.occasion, row.step],
            scoring.scores(samples(world, row.number), 2, 1.0),
        )
        assert (counted.n_episodes, counted.n_failed) == (body.n_episodes, body.metrics["failed"])
        assert counted.reward_mean == pytest.approx(body.reward_mean)
        assert row.version == body.version


def test_a_run_that_finishes_counts_what_has_ended() -> None:
    world = World(evaluation(), random.Random(1))
    world.decide()
    for _ in range(5):
        world.finish_episode()
    while world.n_read < len(world.stream):
        world.read_mail()
    world.state.observed.stop_request = StopRequest.FINISH
    world.drive(0.0)
    assert outcome(world) is RunOutcome.EVALUATED
    (row,) = rows(world)
    assert row.state == EvaluationState.CUT_SHORT
    counted = scoring.scores(samples(world), 4, 1.0)
    assert counted.n_episodes == 5
    (report,) = reports(world)
    assert report.reward_mean == pytest.approx(counted.reward_mean)
    last = [e.body for e in world.events if isinstance(e.body, StateChanged)][-1]
    assert last.reason == "its owner ended it with 5 of 12 episodes"
    assert world.cancelled, "the others are told to stop"


def test_one_that_finishes_before_any_episode_has_nothing_to_report() -> None:
    world = World(evaluation(), random.Random(1))
    world.decide()
    world.state.observed.stop_request = StopRequest.FINISH
    world.drive(0.0)
    assert (outcome(world), reports(world)) == (RunOutcome.EVALUATED, [])
    assert [row.state for row in rows(world)] == [EvaluationState.CUT_SHORT]


def test_one_that_its_run_goes_on_without_is_abandoned() -> None:
    settings = config(evaluation={"episodes": 4})
    world = World(settings, random.Random(1))
    while world.state.rollouts.evaluation is None:
        world.move()
    world.state.observed.stop_request = StopRequest.FINISH
    world.drive(0.0)
    assert [row.state for row in rows(world)] == ["abandoned", "complete"]


def test_scores_by_category_and_environment() -> None:
    played = [
        Sample("a", "quiz/a", 0, "easy", 1.0, {"exact": 1.0}),
        Sample("a", "quiz/a", 0, "easy", 0.0, {"exact": 0.0}),
        Sample("b", "quiz/b", 0, "hard", 0.5),
        Sample("b", "quiz/b", 0, "hard", failure="deadline"),
        Sample("c", "quiz/c", 1, None, failure="lost"),
    ]
    settings = config(environments=[{"name": "guess"}, {"name": "other"}])
    both = scoring.scores(played, 2, 0.5)
    assert (both.n_tasks, both.n_episodes, both.n_failed) == (2, 3, 2)
    assert both.failures == {"deadline": 1, "lost": 1}
    assert both.reward_mean == pytest.approx(0.5)
    assert [(p.k, p.value, p.n_tasks) for p in both.pass_at_k] == [(1, 0.75, 2), (2, 1.0, 1)]
    assert (both.metrics["exact"].mean, both.metrics["exact"].n_episodes) == (0.5, 2)
    first, second = scoring.environments(played, settings, 2, 0.5)
    assert (first.name, [c.category for c in first.categories]) == ("guess", ["easy", "hard"])
    assert (second.name, second.scores.reward_mean, second.categories) == ("other", None, ())
    table = scoring.categories(played, 2, 0.5)
    assert [(c.category, c.scores.n_episodes) for c in table] == [
        ("easy", 2),
        ("hard", 1),
        (None, 0),
    ]
    tasks = scoring.tasks(played, settings)
    assert [(t.task_id, t.category, t.rewards, t.n_failed) for t in tasks] == [
        ("quiz/a", "easy", (1.0, 0.0), 0),
        ("quiz/b", "hard", (0.5,), 1),
        ("quiz/c", None, (), 1),
    ]
