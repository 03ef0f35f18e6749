"""Groups that their environment compares (`Env.score_group`), as env workers tell it with the end of each episode."""

import random
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
from tests.unit.coordinator.test_group_rewards import (
    PATIENT,
    Compare,
    ComparingWorld,
    breaks,
    by_answer,
    by_member,
    rewards,
)
from tests.unit.coordinator.test_recording import ops_of
from tests.unit.coordinator.test_scored_replays import ScoringWorld
from tests.unit.coordinator.world import ReplayWorld, config

from warren_broker.topology import compare
from warren_gateway.coordinator.rollouts import group_rewards
from warren_gateway.runs.ownership import compare_queues
from warren_schemas.episode import (
    Completed,
    EpisodeEnded,
    EpisodePurpose,
    Failed,
    FailureKind,
    StartEpisode,
    StopReason,
)
from warren_schemas.events import RunState

NO_REWARD = Failed(kind=FailureKind.NO_REWARD, reason="no turn gave any", retryable=False)


def compared_later(item: EpisodeEnded) -> EpisodeEnded:
    """The same of an environment that gives nothing before it has compared the group."""
    if not isinstance(item.outcome, Completed) or item.spec.purpose is EpisodePurpose.DEMONSTRATE:
        return item
    *before, last = item.transcript.turns
    turns = (*before, last.model_copy(update={"reward": None}))
    transcript = item.transcript.model_copy(update={"turns": turns})
    changes = {"transcript": transcript, "outcome": NO_REWARD, "uncompared": item.outcome.stop}
    return item.model_copy(update=changes)


@dataclass
class RankingWorld(ComparingWorld):
    """All its env workers host a class that compares, but for the share of those that host an older version."""

    old_share: float = 0.0

    def check(self, item: StartEpisode) -> None:
        assert not (item.spec.group_parts or item.spec.rewards)

    def finish_episode(self) -> None:
        n_before = len(self.stream)
        self.play()
        is_old = self.rng.random() < self.old_share
        if not is_old:
            self.stream[n_before:] = map(compared_later, self.stream[n_before:])

    def play(self) -> None:
        super().finish_episode()

    def answer(self) -> None:
        assert all(asked.by_environment for asked in self.to_compare)
        super().answer()


def ranking(
    compare: Compare = by_member, seed: int = 5, old_share: float = 0.0, **changes: Any
) -> RankingWorld:
    changes = {"limits": PATIENT} | changes
    return RankingWorld(
        config(**changes), random.Random(seed), compare=compare, old_share=old_share
    )


@pytest.mark.parametrize("chaos", [0.0, 0.02])
@pytest.mark.parametrize("failure_rate", [0.0, 0.2])
def test_whoever_is_trained_on_was_compared_and_only_once(
    chaos: float, failure_rate: float
) -> None:
    world = ranking()
    world.failure_rate = failure_rate
    world.drive(chaos)
    assert world.state.run_state is RunState.COMPLETED, world.error
    assert set(world.trained_episodes.values()) <= {1}
    trained = [rewards(each) for each in world.outcomes if rewards(each)]
    assert len(trained) >= 12
    for group in trained:
        assert group == {member: member / 8 for member in group}, "there was no other reward"
    assert {item.uncompared for item in world.stream if item.is_compared} == {None}
    assert compare_queues(world.config, "me", world.state.rollouts.comparing) == {
        "guess": compare("guess")
    }


@pytest.mark.parametrize("seed", range(3))
def test_a_group_has_the_rewards_of_one_answer_whoever_asked_again(seed: int) -> None:
    world = ranking(by_answer, seed)
    world.drive(0.03)
    assert world.state.run_state is RunState.COMPLETED, world.error
    trained = [rewards(each) for each in world.outcomes if rewards(each)]
    assert len(trained) >= 12
    assert all(len(set(group.values())) == 1 for group in trained)


def test_a_comparison_that_fails_is_tried_again_and_then_the_group_has_failed() -> None:
    limits = {"steps": 6, "episode_s": 50.0, "episode_attempts": 3, "failed_groups": 2}
    world = ranking(breaks, limits=limits)
    world.drive(0.0)
    assert world.state.run_state is RunState.FAILED
    assert "rank broke" in world.error
    failed = [each for each in world.outcomes if any("failure" in member for member in each)]
    assert failed
    for group in failed:
        assert {member.get("failure") for member in group} == {"reward_failed"}


def test_members_that_were_compared_and_some_that_were_not_are_never_one_group() -> None:
    world = ranking(old_share=0.1)
    world.drive(0.0)
    assert world.state.run_state is RunState.COMPLETED, world.error
    failures = {member.get("failure") for group in world.outcomes for member in group}
    assert "reward_failed" in failures
    compared = {item.spec.group for item in world.stream if item.is_compared}
    alone = {
        item.spec.group
        for item in world.stream
        if isinstance(item.outcome, Completed) and not item.is_compared
    }
    assert compared and alone and not compared & alone


def test_an_evaluation_counts_what_the_comparison_gives() -> None:
    world = ranking(evaluation={"episodes": 8, "samples": 4, "temperature": 1.0})
    world.drive(0.02)
    assert world.state.run_state is RunState.COMPLETED, world.error
    evaluated = [rewards(each, "evaluated") for each in world.outcomes]
    groups = [group for group in evaluated if group]
    assert len(groups) == 4
    for group in groups:
        assert group == {member: member / 8 for member in group}


@cache
def recorded() -> RankingWorld:
    world = ranking(seed=4)
    world.drive(0.01)
    assert world.state.run_state is RunState.COMPLETED, world.error
    assert not world.state.rollouts.dropped_groups, "replays drop nothing as stale"
    return world


def test_a_replay_has_the_rewards_that_were_recorded_and_asks_nobody() -> None:
    replay = ReplayWorld.of(recorded(), random.Random(1))
    replay.drive(0.02)
    assert replay.state.run_state is RunState.COMPLETED, replay.error
    assert ops_of(replay) == ops_of(recorded())


@dataclass
class RankingReplay(RankingWorld, ScoringWorld):
    """Env workers play the recorded answers once more, and compare them."""

    def play(self) -> None:
        ScoringWorld.finish_episode(self)


@pytest.mark.parametrize("chaos", [0.0, 0.02])
def test_where_a_recording_is_scored_anew_its_groups_are_compared_anew(chaos: float) -> None:
    source = {"rewards": "scored"}
    limits = {"steps": 1000, "episode_attempts": 100}
    world = RankingReplay.of(recorded(), random.Random(2), source=source, limits=limits)
    assert isinstance(world, RankingReplay)
    world.drive(chaos)
    assert world.state.run_state is RunState.COMPLETED, world.error
    assert world.n_answered > 0
    assert {item.compared_by is None for item in world.stream} == {True, False}


def test_what_ended_for_another_reason_than_a_missing_reward_waits_for_nobody() -> None:
    waiting = next(item for item in recorded().stream if item.uncompared is not None)
    assert group_rewards.takes(waiting)
    broken = NO_REWARD.model_copy(update={"kind": FailureKind.REWARD_FAILED})
    assert not group_rewards.takes(waiting.model_copy(update={"outcome": broken}))
    assert not group_rewards.takes(waiting.model_copy(update={"uncompared": None}))
    learned = waiting.spec.model_copy(update={"purpose": EpisodePurpose.DEMONSTRATE})
    assert not group_rewards.takes(waiting.model_copy(update={"spec": learned}))
    assert waiting.uncompared is StopReason.DONE
