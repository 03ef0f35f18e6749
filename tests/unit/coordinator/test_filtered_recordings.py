"""Replays of several recordings, and of what a filter leaves of them."""

import random
from collections import defaultdict
from functools import cache
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from sqlmodel import Session, col, select
from tests.unit.coordinator.test_recording import ops_of
from tests.unit.coordinator.world import ReplayWorld, World, config, copied

from warren_gateway.store.tables import GroupRow, Run
from warren_schemas.config import RecordedFacts, RecordedSource, RecordingFilter
from warren_schemas.episode import Completed, EpisodeEnded
from warren_schemas.errors import ConfigurationError
from warren_schemas.events import RunState
from warren_schemas.ids import ModelId, RunId

THIRD = RunId("run_3")
CALM = {"group_size": 4, "groups_per_step": 2, "max_staleness": 8}


@cache
def played(seed: int) -> World:
    """A calm run over two environments: every group of it was trained on."""
    environments = [{"name": "guess"}, {"name": "other"}]
    world = World(config(algorithm=CALM, environments=environments), random.Random(seed))
    world.drive(0.0)
    assert world.state.run_state is RunState.COMPLETED
    return world


def groups_of(stream: list[EpisodeEnded]) -> dict[str, list[EpisodeEnded]]:
    """In the order in which they were completed; some endings stand there twice."""
    members = defaultdict[str, dict[int, EpisodeEnded]](dict)
    whole: dict[str, list[EpisodeEnded]] = {}
    for item in stream:
        group = members[item.spec.group]
        group.setdefault(item.spec.member, item)
        if len(group) == 4:
            whole.setdefault(item.spec.group, list(group.values()))
    return whole


def mean_reward(items: list[EpisodeEnded]) -> float:
    return float(np.mean([i.outcome.reward for i in items if isinstance(i.outcome, Completed)]))


def trained_groups(world: World) -> list[str]:
    with Session(world.engine) as session:
        rows = session.exec(select(GroupRow).where(col(GroupRow.run_id) == world.run)).all()
    fates = {row.id.partition("@")[0]: (row.outcomes or [{}])[0].get("fate") for row in rows}
    return [group for group, fate in fates.items() if fate == "trained"]


def replayed(recorded: World, chaos: float = 0.0, **source: Any) -> ReplayWorld:
    world = ReplayWorld.of(recorded, random.Random(9), source=source, limits={"steps": 1000})
    world.drive(chaos)
    return world


@pytest.mark.slow
@pytest.mark.parametrize(
    "where",
    [
        {"min_reward": 0.3},
        {"max_reward": 0.3},
        {"environments": ["other"]},
        {"min_version": 2, "max_version": 4},
        {"environments": ["guess"], "min_reward": 0.25},
    ],
)
def test_a_filter_leaves_the_groups_that_a_hand_count_leaves(where: dict[str, Any]) -> None:
    recorded, wanted = played(7), RecordingFilter.model_validate(where)
    expected = {
        group
        for group, items in groups_of(recorded.stream).items()
        if wanted.min_reward is None or mean_reward(items) >= wanted.min_reward
        if wanted.max_reward is None or mean_reward(items) <= wanted.max_reward
        if not wanted.environments or items[0].spec.environment in wanted.environments
        if wanted.min_version is None or min(map(oldest, items)) >= wanted.min_version
        if wanted.max_version is None
        or max(i.transcript.newest_version for i in items) <= wanted.max_version
    }
    once, again = replayed(recorded, where=where), replayed(recorded, 0.01, where=where)
    assert once.state.run_state is again.state.run_state
    assert ops_of(once) == ops_of(again)
    trained = trained_groups(once)
    assert len(trained) == len(expected) // 2 * 2, "all but a last one that fills no step"
    assert set(trained) <= expected


def oldest(item: EpisodeEnded) -> int:
    tokens = item.transcript.tokens
    return int(tokens.versions_T[tokens.mask_T == 1].min())


def test_a_filter_by_fate_takes_what_the_run_trained_on() -> None:
    recorded = played(7)
    everything = replayed(recorded, where={"fates": ["trained"]})
    assert ops_of(everything) == ops_of(replayed(recorded))
    nothing = replayed(recorded, where={"fates": ["stale"]})
    assert nothing.state.run_state is RunState.FAILED
    assert "the recording holds no 2 complete groups" in nothing.error
    dropped = nothing.state.rollouts.dropped_groups
    assert dropped["filtered"] == len(groups_of(recorded.stream))


@pytest.mark.parametrize("chaos", [0.0, 0.02])
def test_several_recordings_come_one_after_the_other(chaos: float) -> None:
    first = played(7)
    second = World(
        first.config, random.Random(8), engine=copied(first.engine), run=THIRD, model=ModelId("model_3"),
    )  # fmt: skip
    second.drive(0.0)
    assert second.state.run_state is RunState.COMPLETED
    replay = ReplayWorld.of(
        second, random.Random(9), source={"also_runs": [THIRD]}, limits={"steps": 1000}
    )
    replay.recorded, replay.n_visible = first.stream, len(first.stream)
    replay.others[THIRD] = second.stream
    replay.drive(chaos)
    assert replay.state.run_state is RunState.COMPLETED
    expected = [*groups_of(first.stream), *groups_of(second.stream)]
    assert set(trained_groups(replay)) <= set(expected)
    assert len(trained_groups(replay)) == len(expected) // 2 * 2
    ops, ours, theirs = ops_of(replay), ops_of(first), ops_of(second)
    assert [op for op in ops if "forward_backward" in op][: len(ours)] == [
        op for op in (*ours, *theirs) if "forward_backward" in op
    ][: len(ours)]
    assert max(replay.trained_episodes.values()) == 1


def test_a_recording_that_ended_before_the_time_to_replay_from_is_passed_over() -> None:
    first = played(7)
    second = World(
        first.config, random.Random(8), engine=copied(first.engine), run=THIRD, model=ModelId("model_3"),
    )  # fmt: skip
    second.drive(0.0)
    with Session(second.engine) as session, session.begin():
        session.get_one(Run, THIRD).ended_s = 100.0
    source = {"also_runs": [THIRD], "from_s": 500.0}
    replay = ReplayWorld.of(second, random.Random(9), source=source, limits={"steps": 1000})
    replay.recorded, replay.n_visible = first.stream, len(first.stream)
    replay.drive(0.0)
    assert replay.state.run_state is RunState.COMPLETED, replay.error
    assert set(trained_groups(replay)) <= set(groups_of(first.stream))


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ({"also_runs": ["run_other"]}, "names a run twice"),
        ({"where": {"min_reward": 1, "max_reward": 0}}, "min_reward is above max_reward"),
        ({"where": {"min_version": 3, "max_version": 2}}, "min_version is above max_version"),
        ({"where": {"fates": ["good"]}}, "Input should be"),
        ({"where": {"reward": 1}}, "Extra inputs"),
        ({"where": {"min_reward": float("nan")}}, "finite"),
    ],
)
def test_a_filter_that_leaves_nothing_is_refused(source: dict[str, Any], what: str) -> None:
    with pytest.raises(ValidationError, match=what):
        RecordedSource.model_validate({"run": "run_other", **source})


def test_what_was_evaluated_or_failed_is_not_trained_on() -> None:
    source = RecordedSource.model_validate({"run": "run_other", "where": {"fates": ["failed"]}})
    with pytest.raises(ConfigurationError, match="that are failed can be evaluated, and are not"):
        config().for_replay(source)


def test_what_failed_has_no_reward_and_what_was_not_decided_no_fate() -> None:
    facts = RecordedFacts(None, "guess", None, (0, 3), frozenset(), 5.0)
    assert RecordingFilter().admits(facts)
    for where in (
        {"min_reward": -1.0}, {"max_reward": 9.0}, {"categories": ("hard",)}, {"fates": ("trained",)},
        {"until_s": 5.0}, {"min_version": 1}, {"max_version": 2},
    ):  # fmt: skip
        assert not RecordingFilter.model_validate(where).admits(facts), where
