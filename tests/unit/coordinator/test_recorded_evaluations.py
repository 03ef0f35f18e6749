"""Evaluations of what is recorded: their numbers are those of a hand count over the recording, whoever drives the run.

Worlds play runs, with failures, duplicates and lost episodes, that train and evaluate; others evaluate what those wrote.
"""

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from functools import cache
from math import comb, fsum, sqrt
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from sqlmodel import Session, col, select
from tests.unit.coordinator.test_replays_of_files import add_dataset, archived, exported
from tests.unit.coordinator.test_scored_replays import Score, ScoringWorld, by_mark, mark_of, never
from tests.unit.coordinator.test_without_steps import evaluation as live_evaluation
from tests.unit.coordinator.test_without_steps import outcome, reports
from tests.unit.coordinator.world import (
    MOST_MOVES,
    NEW_MODEL,
    REPLAY,
    RUN,
    ReplayWorld,
    World,
    config,
    copied,
)

from warren_gateway.coordinator.replaying.files import Files, UploadedRows
from warren_gateway.evaluations import scoring
from warren_gateway.evaluations.samples import is_whole, samples_of
from warren_gateway.position import Position
from warren_gateway.recordings.fates import counts, fates_of
from warren_gateway.runs.submitting import job_row
from warren_gateway.scheduling.job_records import without_trainer
from warren_gateway.stop_request import StopRequest
from warren_gateway.store.tables import EvaluationRow, GroupRow, Model, Run
from warren_schemas.config import ArchiveFormat, RecordedSource
from warren_schemas.control import WorkerRole
from warren_schemas.envelope import Item
from warren_schemas.episode import Completed, EpisodeEnded, EpisodePurpose, Step
from warren_schemas.events import RunOutcome, RunState, WarningRaised
from warren_schemas.http import Scores, TaskScores, TrajectoryView
from warren_schemas.ids import RunId

REFERENCE = f"me/monday@{'5' * 64}"
EVALUATION = {"episodes": 8, "samples": 4, "temperature": 1.0, "every_steps": 3}
TAKEOVER = 0.05
"""The chance of one before a move, while there are some left."""
CATEGORIES = ("easy", "hard", None)


class SortingWorld(World):
    """Whose environment takes its tasks from data, and says of which category each is."""

    def finish_episode(self) -> None:
        before = len(self.stream)
        super().finish_episode()
        self.stream[before:] = [_of_data(item) for item in self.stream[before:]]


def _of_data(item: EpisodeEnded) -> EpisodeEnded:
    number = item.spec.task.index % 5
    task = {"task_number": number, "category": CATEGORIES[number % 3]}
    return item.model_copy(update={"transcript": item.transcript.model_copy(update=task)})


@cache
def played(steps: int = 6) -> World:
    """A run that trained and evaluated, and lost episodes at it."""
    limits = {"steps": steps, "episode_s": 50, "episode_attempts": 2}
    found = config(evaluation=EVALUATION, limits=limits, retention={"archive": "jsonl"})
    world = SortingWorld(found, random.Random(7), failure_rate=0.2)
    world.drive(0.01)
    assert world.state.run_state is RunState.COMPLETED, world.error
    return world


@cache
def cancelled() -> World:
    """A run that was ended while episodes were in flight."""
    found = config(algorithm={"group_size": 4, "groups_per_step": 6, "max_staleness": 1})
    world = SortingWorld(found, random.Random(5), failure_rate=0.2)
    while world.state.learning.steps.n_trained < 2:
        world.move()
    world.state.observed.is_cancel_requested = True
    world.drive(0.0)
    assert world.state.run_state is RunState.CANCELLED
    return world


def of_recorded(
    recorded: World, *, seed: int = 9, kind: type[ReplayWorld] = ReplayWorld, **source: Any
) -> ReplayWorld:
    origin = {} if "dataset" in source else {"run": RUN}
    made = recorded.config.for_recorded_evaluation(RecordedSource.model_validate(origin | source))
    return kind(
        made, random.Random(seed), engine=copied(recorded.engine), run=REPLAY, model=NEW_MODEL,
        recorded=recorded.stream, n_visible=len(recorded.stream), now_s=recorded.now_s,
    )  # fmt: skip


def evaluated(recorded: World, takeovers: int = 0, **source: Any) -> ReplayWorld:
    return driven(of_recorded(recorded, **source), takeovers)


def driven(world: ReplayWorld, takeovers: int) -> ReplayWorld:
    """To its end; so often another coordinator takes it over."""
    world.decide()
    for _ in range(MOST_MOVES):
        if world.state.is_over:
            break
        if takeovers and world.rng.random() < TAKEOVER:
            takeovers -= 1
            world.load()
        world.move()
    assert world.state.run_state is RunState.COMPLETED, world.error
    return world


def rows_of(world: World) -> list[GroupRow]:
    """In the order in which they were counted."""
    query = select(GroupRow).where(col(GroupRow.run_id) == world.run, col(GroupRow.evaluation) == 1)
    with Session(world.engine, expire_on_commit=False) as session:
        return list(session.exec(query.order_by(col(GroupRow.number))))


def row_of(world: World) -> EvaluationRow:
    query = select(EvaluationRow).where(col(EvaluationRow.run_id) == world.run)
    with Session(world.engine, expire_on_commit=False) as session:
        return session.exec(query).one()


Table = tuple[Scores, object, tuple[TaskScores, ...]]


def table(world: World) -> Table:
    samples = list(samples_of(rows_of(world), world.config))
    most = row_of(world).samples
    return (
        scoring.scores(samples, most, 1.0),
        scoring.environments(samples, world.config, most, 1.0),
        scoring.tasks(samples, world.config),
    )


def views(world: World, run: RunId) -> list[TrajectoryView]:
    """What an export of the run holds."""
    with Session(world.engine) as session:
        fates = fates_of(session, run, world.stream)
    found = [fates.view(item, Position(offset)) for offset, item in enumerate(world.stream)]
    return [view for view in found if counts(view)]


def whole_groups(
    recorded: World, purposes: Iterable[EpisodePurpose] = ()
) -> list[list[TrajectoryView]]:
    """Of which every member has ended."""
    wanted = tuple(purposes) or (EpisodePurpose.TRAIN, EpisodePurpose.EVALUATE)
    groups = defaultdict[str, list[TrajectoryView]](list)
    for view in views(recorded, RUN):
        if view.trajectory.spec.purpose in wanted:
            groups[view.trajectory.spec.group].append(view)
    return [group for group in groups.values() if len(group) == group[0].group_size]


def n_incomplete(recorded: World, where: Callable[[TrajectoryView], bool] = lambda _: True) -> int:
    """Groups of which some members have ended, and others never."""
    groups = defaultdict[str, list[TrajectoryView]](list)
    for view in views(recorded, RUN):
        if view.trajectory.spec.purpose is not EpisodePurpose.DEMONSTRATE:
            groups[view.trajectory.spec.group].append(view)
    lacking = [group for group in groups.values() if len(group) < (group[0].group_size or 1)]
    return sum(all(map(where, group)) for group in lacking)


def n_left_out(world: World) -> int:
    return sum(not is_whole(row) for row in rows_of(world))


def task_of(view: TrajectoryView) -> int:
    number = view.trajectory.transcript.task_number
    assert number is not None
    return number


def by_hand(groups: Iterable[list[TrajectoryView]]) -> dict[int, list[float]]:
    """The rewards of each task."""
    rewards = defaultdict[int, list[float]](list)
    for view in (view for group in groups for view in group):
        if isinstance(outcome := view.trajectory.outcome, Completed):
            rewards[task_of(view)].append(outcome.reward)
    return rewards


def error_by_hand(rewards: Iterable[list[float]]) -> float:
    """docs/evaluation.md: sqrt(G/(G-1) * sum(r^2)) / n."""
    clusters = list(rewards)
    every = [reward for cluster in clusters for reward in cluster]
    mean, n_clusters = fsum(every) / len(every), len(clusters)
    squares = fsum(fsum(reward - mean for reward in cluster) ** 2 for cluster in clusters)
    return sqrt(n_clusters / (n_clusters - 1) * squares) / len(every)


def test_its_numbers_are_those_of_a_hand_count_over_the_recording() -> None:
    recorded = played()
    world = evaluated(recorded)
    groups = whole_groups(recorded)
    rewards = by_hand(groups)
    every = [reward for of_task in rewards.values() for reward in of_task]
    members = [view for group in groups for view in group]
    n_failed = sum(not isinstance(view.trajectory.outcome, Completed) for view in members)

    found, _, tasks = table(world)

    assert n_failed > 0
    assert (found.n_episodes, found.n_failed, found.n_tasks) == (len(every), n_failed, len(rewards))
    assert found.reward_mean == pytest.approx(fmean(every))
    assert found.reward_standard_error == pytest.approx(error_by_hand(rewards.values()))
    assert [each.k for each in found.pass_at_k] == [1, 2, 3, 4]
    for each in found.pass_at_k:
        passes = [_pass_by_hand(of_task, each.k) for of_task in rewards.values()]
        assert each.value == pytest.approx(fmean(passes))
    assert sorted(sorted(task.rewards) for task in tasks) == sorted(map(sorted, rewards.values()))
    (report,) = reports(world)
    assert (report.n_episodes, report.reward_mean) == (len(every), pytest.approx(fmean(every)))
    assert "version" not in report.metrics
    row = row_of(world)
    assert (row.state, row.n_planned, row.samples) == ("complete", len(members), 4)


def _pass_by_hand(rewards: list[float], k: int) -> float:
    n, n_solved = len(rewards), sum(reward >= 1.0 for reward in rewards)
    return 1.0 - comb(n - n_solved, k) / comb(n, k)


def test_categories_are_those_that_were_recorded() -> None:
    recorded = played()
    world = evaluated(recorded)
    samples = list(samples_of(rows_of(world), world.config))
    found = {each.category: each.scores for each in scoring.categories(samples, 1, 1.0)}
    members = [view for group in whole_groups(recorded) for view in group]
    expected = Counter(view.trajectory.transcript.category for view in members)
    assert {name: scores.n_episodes + scores.n_failed for name, scores in found.items()} == expected
    assert set(found) == set(CATEGORIES)


def test_nothing_is_played_and_nobody_is_asked_for() -> None:
    world = of_recorded(played())
    world.away, world.environments = WorkerRole.SAMPLER, ()
    state = world.drive(0.0)
    assert state.run_state is RunState.COMPLETED, world.error
    assert (world.episodes, world.applied, state.learning.ops.last) == ([], {}, 0)
    assert state.lease.epoch == 0, "no trainer was asked for"
    assert outcome(world) is RunOutcome.EVALUATED
    assert not [e for e in world.events if isinstance(e.body, WarningRaised)]


def test_no_base_model_is_loaded_for_it() -> None:
    world = of_recorded(played())
    with Session(world.engine) as session:
        run, model = session.get_one(Run, REPLAY), session.get_one(Model, NEW_MODEL)
        run.state = RunState.RUNNING
        session.add(job_row(run, world.config, model))
        session.flush()
        assert without_trainer(session) == []


@pytest.mark.parametrize("seed", range(2))
def test_whoever_takes_it_over_it_has_the_same_numbers(seed: int) -> None:
    recorded = played()
    calm = evaluated(recorded)
    rough = driven(of_recorded(recorded, seed=seed), 5)
    assert table(rough) == table(calm)
    assert told(rough) == told(calm)


def told(world: World) -> list[dict[str, Any]]:
    """What stands there of each episode, in order, but for where it lies in the own recording."""
    outcomes = [outcome for row in rows_of(world) for outcome in row.outcomes or ()]
    return [{k: v for k, v in outcome.items() if k != "position"} for outcome in outcomes]


@pytest.mark.parametrize("takeovers", [0, 3])
def test_its_own_recording_has_every_episode_once(takeovers: int) -> None:
    recorded = played()
    world = evaluated(recorded, takeovers)
    members = [view for group in whole_groups(recorded) for view in group]

    ours = views(world, REPLAY)

    assert {view.fate for view in ours} == {"evaluated", "failed"}
    assert Counter(map(_said, ours)) == Counter(map(_said, members))
    assert {view.trajectory.spec.purpose for view in ours} == {EpisodePurpose.EVALUATE}
    episodes = [outcome["recorded"] for outcome in told(world)]
    assert sorted(episodes) == sorted(view.trajectory.envelope.episode or "" for view in members)


def _said(view: TrajectoryView) -> tuple[object, ...]:
    ended = view.trajectory
    reward = ended.outcome.reward if isinstance(ended.outcome, Completed) else ended.outcome.kind
    return mark_of(ended.transcript), reward, task_of(view), view.group_size


@pytest.mark.parametrize("takeovers", [0, 3])
def test_groups_that_lack_a_member_are_counted_once(takeovers: int) -> None:
    recorded = cancelled()
    world = evaluated(recorded, takeovers)
    assert n_left_out(world) == n_incomplete(recorded) > 0
    ended = [view for group in whole_groups(recorded) for view in group]
    found, *_ = table(world)
    assert found.n_episodes + found.n_failed == row_of(world).n_planned == len(ended)


def test_groups_that_lack_a_member_are_left_out_by_the_filter_first() -> None:
    recorded = cancelled()
    world = evaluated(recorded, where={"categories": ["hard"]})
    n_hard = n_incomplete(recorded, lambda v: v.trajectory.transcript.category == "hard")
    assert 0 < n_left_out(world) == n_hard < n_incomplete(recorded)


def test_what_was_not_read_is_not_said_to_lack_anything() -> None:
    world = of_recorded(cancelled())
    world.decide()
    while len(rows_of(world)) < 3:
        world.move()
    world.state.observed.stop_request = StopRequest.FINISH
    world.drive(0.0)
    assert row_of(world).state == "cut_short"
    assert n_left_out(world) == 0


def test_the_recording_of_an_evaluation_gives_the_results_of_that_evaluation() -> None:
    live = World(live_evaluation(), random.Random(3), failure_rate=0.3)
    live.drive(0.02)
    assert live.state.run_state is RunState.COMPLETED, live.error
    world = evaluated(live)
    ours, theirs = table(world), table(live)
    assert ours[0] == theirs[0]
    assert {task.task: Counter(task.rewards) for task in ours[2]} == {
        task.task: Counter(task.rewards) for task in theirs[2]
    }


@pytest.mark.parametrize(
    ("where", "purposes"),
    [
        ({"fates": ["evaluated"]}, [EpisodePurpose.EVALUATE]),
        ({"min_version": 2, "max_version": 3}, []),
        ({"categories": ["hard"]}, []),
    ],
)
def test_a_filter_leaves_the_groups_that_a_hand_count_leaves(
    where: dict[str, Any], purposes: list[EpisodePurpose]
) -> None:
    recorded = played()
    world = evaluated(recorded, 2, where=where)
    groups = [g for g in whole_groups(recorded, purposes) if _is_admitted(g, where)]
    every = [reward for of_task in by_hand(groups).values() for reward in of_task]
    found, *_ = table(world)
    assert 0 < found.n_episodes == len(every) < sum(len(g) for g in whole_groups(recorded))
    assert found.reward_mean == pytest.approx(fmean(every))


def _is_admitted(group: list[TrajectoryView], where: dict[str, Any]) -> bool:
    ended = [v for v in group if isinstance(v.trajectory.outcome, Completed)]
    if "categories" in where:
        return group[0].trajectory.transcript.category in where["categories"]
    if "fates" in where:
        return bool(ended) and {view.fate for view in ended} <= set(where["fates"])
    versions = [
        version
        for view in ended
        for tokens in view.trajectory.transcript.sequences
        for version in tokens.versions_T[tokens.mask_T == 1]
    ]
    is_within = where["min_version"] <= min(versions) and max(versions) <= where["max_version"]
    return bool(versions) and is_within


def test_failures_that_were_recorded_are_counted_and_end_nothing() -> None:
    settings = live_evaluation(limits={"steps": 0, "episode_s": 50, "episode_attempts": 1})
    live = World(settings, random.Random(1), failing=EpisodePurpose.EVALUATE)
    live.drive(0.0)
    world = of_recorded(live)
    world.drive(0.0)
    assert world.state.run_state is RunState.COMPLETED, world.error
    assert outcome(world) is RunOutcome.EVALUATED
    found, *_ = table(world)
    assert (found.n_episodes, found.n_failed) == (0, 12)
    assert world.state.rollouts.failures == {"environment_error": 12}


def test_nothing_to_evaluate_is_told() -> None:
    world = of_recorded(played(), where={"min_reward": 5.0})
    world.drive(0.0)
    assert world.state.run_state is RunState.FAILED
    assert "holds no complete group that is to be evaluated; source.where leaves out" in world.error


def test_an_environment_that_is_not_named_is_told() -> None:
    recorded = played()
    made = recorded.config.model_copy(
        update={"environments": config(environments=[{"name": "other"}]).environments}
    )
    other = replace_config(recorded, made)
    world = of_recorded(other)
    world.drive(0.0)
    assert world.state.run_state is RunState.FAILED
    assert (
        "the recording holds episodes of guess, too, which environments doesn't name" in world.error
    )


def replace_config(recorded: World, made: Any) -> World:
    found = object.__new__(World)
    found.__dict__.update(recorded.__dict__)
    found.config = made
    return found


def test_a_pause_costs_nothing() -> None:
    recorded = played()
    world = of_recorded(recorded)
    while not rows_of(world):
        world.move()
        world.decide()
    world.state.observed.stop_request = StopRequest.PAUSE
    for _ in range(50):
        world.move()
    assert world.state.run_state is RunState.PAUSED
    n_counted = len(rows_of(world))
    assert n_counted < len(whole_groups(recorded))
    world.state.observed.stop_request = None
    world.drive(0.0)
    assert table(world) == table(evaluated(recorded))


def test_a_run_that_finishes_early_has_what_was_counted() -> None:
    world = of_recorded(played())
    world.decide()
    while len(rows_of(world)) < 3:
        world.move()
    world.state.observed.stop_request = StopRequest.FINISH
    world.drive(0.0)
    assert outcome(world) is RunOutcome.EVALUATED
    row = row_of(world)
    assert row.state == "cut_short"
    assert row.n_planned == sum(each.n_members for each in rows_of(world))
    assert row.n_planned < len(views(played(), RUN))


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
@pytest.mark.parametrize("takeovers", [0, 2])
@pytest.mark.slow
def test_files_give_the_numbers_of_the_stream(
    form: ArchiveFormat, takeovers: int, tmp_path: Path
) -> None:
    recorded = played(steps=3)
    files = archived(recorded, "jsonl", tmp_path)
    rows = UploadedRows(exported(recorded, form, tmp_path))
    from_stream = table(evaluated(recorded))
    assert table(from_files(recorded, files, takeovers, from_archive=True)) == from_stream
    add_dataset(recorded, rows)
    assert table(from_files(recorded, rows, takeovers, dataset=REFERENCE)) == from_stream


def from_files(recorded: World, files: Files, takeovers: int, **source: Any) -> ReplayWorld:
    world = of_recorded(recorded, **source)
    world.files = files
    return driven(world, takeovers)


class ScoredWorld(ScoringWorld):
    """Whose env workers score what is evaluated."""

    def _receive(self, address_kind: str, item: Item) -> None:
        if isinstance(item, Step):
            assert item.spec.purpose is EpisodePurpose.EVALUATE
            spec = item.spec.model_copy(update={"purpose": EpisodePurpose.TRAIN})
            super()._receive(address_kind, item.model_copy(update={"spec": spec}))
            self.to_score[-1] = item
        else:
            super()._receive(address_kind, item)


def scored(recorded: World, chaos: float, score: Score = by_mark) -> ScoredWorld:
    world = of_recorded(recorded, kind=ScoredWorld, rewards="scored")
    assert isinstance(world, ScoredWorld)
    world.score = score
    world.drive(chaos)
    return world


@pytest.mark.parametrize("chaos", [0.0, 0.02])
def test_rewards_scored_anew_are_those_of_a_hand_count(chaos: float) -> None:
    recorded = played()
    patient = recorded.config.limits.model_copy(update={"episode_attempts": 100})
    world = scored(
        replace_config(recorded, recorded.config.model_copy(update={"limits": patient})), chaos
    )
    assert world.state.run_state is RunState.COMPLETED, world.error
    members = [view for group in whole_groups(recorded) for view in group]
    ended = [view for view in members if isinstance(view.trajectory.outcome, Completed)]
    rewards = [reward_of(view) for view in ended]
    found, _, tasks = table(world)
    assert (found.n_episodes, found.n_failed) == (len(ended), len(members) - len(ended))
    assert found.reward_mean == pytest.approx(fmean(rewards))
    kept = table(evaluated(recorded))
    assert kept[0].reward_mean != found.reward_mean
    assert {task.task for task in tasks} == {task.task for task in kept[2]}, "they can be compared"
    ours = views(world, REPLAY)
    assert Counter((mark_of(v.trajectory.transcript), reward(v)) for v in ours) == Counter(
        (mark_of(v.trajectory.transcript), reward_of(v) if v in ended else None) for v in members
    )


def reward_of(view: TrajectoryView) -> float:
    scored = by_mark(mark_of(view.trajectory.transcript))
    assert isinstance(scored, Completed)
    return scored.reward


def reward(view: TrajectoryView) -> float | None:
    outcome = view.trajectory.outcome
    return outcome.reward if isinstance(outcome, Completed) else None


def test_what_cannot_be_scored_has_no_reward_and_ends_the_run() -> None:
    world = scored(played(), 0.0, score=never)
    assert world.state.run_state is RunState.FAILED
    assert "it showed something else" in world.error
    assert all("reward" not in outcome for outcome in told(world))
