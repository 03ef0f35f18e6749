"""Replays of runs in which comparisons failed: what they were to compare has no reward that counts."""

import random
from itertools import groupby

from sqlmodel import Session
from tests.unit.coordinator.test_group_rewards import ComparingWorld, by_member, comparing
from tests.unit.coordinator.world import RUN, ReplayWorld

from warren_gateway.position import Position
from warren_gateway.recordings.fates import SUPERSEDED, fates_of
from warren_schemas.episode import EpisodeEnded, Failed, FailureKind
from warren_schemas.events import RunState
from warren_schemas.group_scoring import GroupRewards, ScoreGroup

ALGORITHM = {"group_size": 4, "groups_per_step": 2, "max_staleness": 8}
"""Nothing is stale, so a replay has as many steps as the run."""


def breaks_at_odd_tasks(asked: ScoreGroup, n_answered: int) -> GroupRewards | Failed:
    if asked.spec.task.index % 2 == 0:
        return by_member(asked, n_answered)
    return Failed(kind=FailureKind.REWARD_FAILED, reason="rank broke", retryable=False)


def completed(world: ComparingWorld) -> ComparingWorld:
    world.drive(0.0)
    assert world.state.run_state is RunState.COMPLETED, world.error
    assert "stale" not in world.state.rollouts.dropped_groups
    return world


def whole_uncompared(world: ComparingWorld) -> list[EpisodeEnded]:
    """Of the groups whose members have all ended, and none was compared."""

    def group_of(item: EpisodeEnded) -> str:
        return item.spec.group

    groups = [list(items) for _, items in groupby(sorted(world.stream, key=group_of), group_of)]
    whole = [items for items in groups if len({item.spec.member for item in items}) == 4]
    return [item for items in whole if not any(i.is_compared for i in items) for item in items]


def fates(world: ComparingWorld) -> dict[str, set[str]]:
    """By id of the group, those of its endings."""
    told: dict[str, set[str]] = {}
    with Session(world.engine) as session:
        all_of_them = fates_of(session, RUN, world.stream)
    for offset, item in enumerate(world.stream):
        view = all_of_them.view(item, Position(offset))
        told.setdefault(item.spec.group, set()).add(f"{view.fate}")
    return told


def replayed(world: ComparingWorld) -> ReplayWorld:
    """All of it, however many steps that makes."""
    replay = ReplayWorld.of(world, random.Random(1), limits={"steps": 1000})
    replay.drive(0.0)
    assert replay.state.run_state is RunState.COMPLETED, replay.error
    return replay


def test_a_replay_leaves_groups_out_whose_comparison_failed() -> None:
    limits = {"steps": 6, "episode_s": 50.0, "failed_groups": 100}
    world = completed(comparing(breaks_at_odd_tasks, algorithm=ALGORITHM, limits=limits))
    failed = {item.spec.group for item in whole_uncompared(world) if item.spec.task.index % 2}
    assert len(failed) >= 2, "a step that a replay could take by mistake"
    assert all(fates(world)[group] == {SUPERSEDED} for group in failed)
    assert replayed(world).state.learning.steps.n_trained == 6
