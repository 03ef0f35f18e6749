"""Groups whose members are compared before they count, in a world in which env workers do that late, twice, or never."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pytest
from sqlmodel import Session, col, select
from tests.unit.coordinator.test_recorded_evaluations import of_recorded
from tests.unit.coordinator.test_recording import ops_of
from tests.unit.coordinator.test_scored_replays import ScoringWorld
from tests.unit.coordinator.world import RUN, ReplayWorld, World, config

from warren_broker.topology import compare
from warren_gateway.coordinator import answering
from warren_gateway.coordinator.rollouts import group_rewards
from warren_gateway.store.tables import GroupRow, OutboxRow
from warren_schemas.codec.wire import decode
from warren_schemas.control import WorkerRole
from warren_schemas.envelope import Envelope, Item
from warren_schemas.episode import Completed, EpisodeEnded, Failed, FailureKind, StartEpisode
from warren_schemas.events import RunState
from warren_schemas.group_scoring import GroupRewards, GroupScored, MemberReward, ScoreGroup

RANK = {"kind": "group_function", "function": "my:rank"}
RANKED = [{"name": "guess", "rewards": [{"kind": "own"}, RANK]}]
RECORDED_SEED = 9
PATIENT = {"steps": 6, "episode_s": 50.0, "episode_attempts": 100}

Compare = Callable[[ScoreGroup, int], GroupRewards | Failed]
"""Of a question, and how many were answered before."""


def by_member(asked: ScoreGroup, n_answered: int) -> GroupRewards | Failed:
    return GroupRewards(
        members=tuple(
            MemberReward(member=m.member, reward=m.member / 8, metrics={"reward/rank": 1.0})
            for m in asked.members
        )
    )


def by_answer(asked: ScoreGroup, n_answered: int) -> GroupRewards | Failed:
    """Never the same twice."""
    return GroupRewards(
        members=tuple(
            MemberReward(member=m.member, reward=float(n_answered)) for m in asked.members
        )
    )


def breaks(asked: ScoreGroup, n_answered: int) -> GroupRewards | Failed:
    """Once some groups were compared."""
    if n_answered <= 4:
        return by_member(asked, n_answered)
    return Failed(kind=FailureKind.REWARD_FAILED, reason="rank broke")


@dataclass
class ComparingWorld(World):
    compare: Compare = by_member
    to_compare: list[ScoreGroup] = field(default_factory=list[ScoreGroup])
    compared: list[GroupScored] = field(default_factory=list[GroupScored])
    n_asked: int = 0
    n_answered: int = 0

    def _receive(self, address_kind: str, item: Item) -> None:
        if isinstance(item, ScoreGroup):
            assert item.spec.policy.model == self.model, "there it is waited for"
            self.to_compare.append(item)
            self.n_asked += 1
        elif isinstance(item, EpisodeEnded):
            assert item.is_compared
            super()._receive(address_kind, item)
        else:
            if isinstance(item, StartEpisode):
                self.check(item)
            super()._receive(address_kind, item)

    def check(self, item: StartEpisode) -> None:
        assert [part.kind for part in item.spec.group_parts] == ["group_function"]
        assert [part.kind for part in item.spec.rewards] == ["own"]

    def move(self) -> None:
        if self.rng.random() < 0.3:
            self.answer()
        super().move()

    def answer(self) -> None:
        """A worker answers one of the questions, sometimes twice; another one had its deadline behind it."""
        if not self.to_compare or self.away is WorkerRole.ENVIRONMENT:
            return
        asked = self.to_compare.pop(self.rng.randrange(len(self.to_compare)))
        for _ in range(self.rng.choice((1, 1, 2))):
            self.n_answered += 1
            outcome = self.compare(asked, self.n_answered)
            before = asked.envelope
            envelope = Envelope(run=before.run, episode=before.episode, attempt=before.attempt)
            self.compared.append(
                GroupScored(envelope=envelope, spec=asked.spec, outcome=outcome, worker="env")
            )

    def read_mail(self) -> None:
        while self.compared and self.rng.random() < 0.7:
            answering.absorb_group(self.state, self.compared.pop(0))
        super().read_mail()

    def lose_episode(self) -> None:
        if self.to_compare and self.rng.random() < 0.5:
            self.to_compare.pop()
        super().lose_episode()

    @property
    def outcomes(self) -> list[list[dict[str, Any]]]:
        """Of closed groups."""
        with Session(self.engine) as session:
            rows = session.exec(select(GroupRow).where(col(GroupRow.run_id) == self.run))
            return [row.outcomes for row in rows if row.outcomes]


def comparing(compare: Compare = by_member, seed: int = 5, **changes: Any) -> ComparingWorld:
    changes = {"environments": RANKED, "limits": PATIENT} | changes
    return ComparingWorld(config(**changes), random.Random(seed), compare=compare)


def rewards(outcomes: list[dict[str, Any]], fate: str = "trained") -> dict[int, float]:
    return {n: each["reward"] for n, each in enumerate(outcomes) if each["fate"] == fate}


@pytest.mark.parametrize("chaos", [0.0, 0.02])
@pytest.mark.parametrize("failure_rate", [0.0, 0.2])
def test_whoever_is_trained_on_was_compared_and_only_once(
    chaos: float, failure_rate: float
) -> None:
    world = comparing()
    world.failure_rate = failure_rate
    world.drive(chaos)
    assert world.state.run_state is RunState.COMPLETED, world.error
    assert set(world.trained_episodes.values()) <= {1}
    trained = [rewards(each) for each in world.outcomes if rewards(each)]
    assert len(trained) >= 12
    for group in trained:
        assert group == {member: 1.0 + member / 8 for member in group}
    assert not world.state.rollouts.groups or world.state.is_over


@pytest.mark.parametrize("seed", range(4))
def test_a_group_has_the_rewards_of_one_answer_whoever_asked_again(seed: int) -> None:
    world = comparing(by_answer, seed)
    world.drive(0.03)
    assert world.state.run_state is RunState.COMPLETED, world.error
    trained = [rewards(each) for each in world.outcomes if rewards(each)]
    assert len(trained) >= 12
    assert all(len(set(group.values())) == 1 for group in trained)


@dataclass
class Post(ComparingWorld):
    """Notes how many groups each message to those who compare has."""

    n_groups: list[int] = field(default_factory=list[int])

    def _deliver(self) -> None:
        with Session(self.engine) as session:
            for row in session.exec(select(OutboxRow)):
                items = [i for i in decode(row.body).items if isinstance(i, ScoreGroup)]
                assert bool(items) == (row.address == compare("guess").name)
                self.n_groups += [len(items)] if items else []
        super()._deliver()


def test_each_group_travels_alone_to_the_queue_of_those_who_compare() -> None:
    world = Post(config(environments=RANKED, limits=PATIENT), random.Random(5))
    world.drive(0.0)
    assert world.state.run_state is RunState.COMPLETED, world.error
    assert len(world.n_groups) >= 12
    assert set(world.n_groups) == {1}


def test_what_was_played_is_counted_once() -> None:
    world = comparing()
    world.drive(0.0)
    n_tokens = sum(item.transcript.n_sampled for item in world.stream if item.is_compared)
    n_trained = sum(len(rewards(each)) for each in world.outcomes)
    assert n_trained * 2 <= world.state.rollouts.n_tokens <= n_tokens


def test_a_comparison_that_fails_is_tried_again_and_then_the_group_has_failed() -> None:
    limits = {"steps": 6, "episode_s": 50.0, "episode_attempts": 3, "failed_groups": 2}
    world = comparing(breaks, limits=limits)
    world.drive(0.0)
    assert world.state.run_state is RunState.FAILED
    assert "rank broke" in world.error
    assert world.n_asked >= 3
    failed = [each for each in world.outcomes if any("failure" in member for member in each)]
    assert failed
    for group in failed:
        assert {member.get("failure") for member in group} == {"reward_failed"}


def test_a_comparison_that_is_lost_is_asked_for_again_at_its_deadline() -> None:
    world = comparing()
    while not world.to_compare:
        world.move()
    world.to_compare.clear()
    n_asked = world.n_asked
    world.now_s += 51.0
    world.decide()
    assert world.n_asked > n_asked
    world.drive(0.0)
    assert world.state.run_state is RunState.COMPLETED, world.error


class WordyWorld(ComparingWorld):
    """Each episode says so much that a message can't carry all of a group."""

    def finish_episode(self) -> None:
        n_before = len(self.stream)
        super().finish_episode()
        self.stream[n_before:] = map(_wordy, self.stream[n_before:])


def _wordy(item: EpisodeEnded) -> EpisodeEnded:
    shown, *rest = item.transcript.messages
    wordy = shown.model_copy(update={"content": "x" * (group_rewards.MAX_WORDS_BYTES // 3)})
    transcript = item.transcript.model_copy(update={"messages": (wordy, *rest)})
    return item.model_copy(update={"transcript": transcript})


def test_what_no_message_can_carry_is_not_compared() -> None:
    limits = {"steps": 6, "episode_s": 50.0, "episode_attempts": 3, "failed_groups": 2}
    world = WordyWorld(config(environments=RANKED, limits=limits), random.Random(5))
    world.drive(0.0)
    assert world.state.run_state is RunState.FAILED
    assert "can be compared" in world.error
    assert world.n_asked == 0


def test_an_evaluation_counts_what_the_comparison_gives() -> None:
    world = comparing(evaluation={"episodes": 8, "samples": 4, "temperature": 1.0})
    world.drive(0.02)
    assert world.state.run_state is RunState.COMPLETED, world.error
    evaluated = [rewards(each, "evaluated") for each in world.outcomes]
    groups = [group for group in evaluated if group]
    assert len(groups) == 4
    for group in groups:
        assert group == {member: 1.0 + member / 8 for member in group}


def test_nobody_is_asked_to_compare_demonstrations() -> None:
    sft = {"steps": 2, "episodes_per_step": 2}
    world = comparing(sft=sft, limits={"steps": 1, "episode_s": 50.0})
    world.drive(0.0)
    assert world.state.run_state is RunState.COMPLETED, world.error
    purposes = {item.spec.purpose for item in world.stream if item.is_compared}
    assert {purpose.value for purpose in purposes} == {"train"}


@cache
def recorded() -> ComparingWorld:
    world = comparing(seed=RECORDED_SEED)
    world.drive(0.01)
    assert world.state.run_state is RunState.COMPLETED, world.error
    assert not world.state.rollouts.dropped_groups, "replays drop nothing as stale"
    return world


def test_a_replay_has_the_rewards_that_were_recorded_and_asks_nobody() -> None:
    replay = ReplayWorld.of(recorded(), random.Random(1))
    replay.drive(0.02)
    assert replay.state.run_state is RunState.COMPLETED, replay.error
    assert ops_of(replay) == ops_of(recorded())


def test_an_evaluation_of_the_recording_has_its_rewards_and_asks_nobody() -> None:
    world = of_recorded(recorded())
    world.drive(0.02)
    assert world.state.run_state is RunState.COMPLETED, world.error
    with Session(world.engine) as session:
        rows = session.exec(select(GroupRow).where(col(GroupRow.run_id) == world.run))
        evaluated = [rewards(row.outcomes, "evaluated") for row in rows if row.outcomes]
    groups = [group for group in evaluated if group]
    assert len(groups) >= 12
    for group in groups:
        assert group == {member: 1.0 + member / 8 for member in group}


@dataclass
class ComparingReplay(ComparingWorld, ScoringWorld):
    """Env workers play the recorded answers once more, and compare them."""

    def finish_episode(self) -> None:
        ScoringWorld.finish_episode(self)


@pytest.mark.parametrize("chaos", [0.0, 0.02])
def test_where_a_recording_is_scored_anew_its_groups_are_compared_anew(chaos: float) -> None:
    source = {"rewards": "scored"}
    limits = {"steps": 1000, "episode_attempts": 100}
    world = ComparingReplay.of(recorded(), random.Random(2), source=source, limits=limits)
    assert isinstance(world, ComparingReplay)
    world.drive(chaos)
    assert world.state.run_state is RunState.COMPLETED, world.error
    assert world.n_answered > 0
    assert {item.compared_by is None for item in world.stream} == {True, False}


def test_of_a_group_that_was_never_decided_only_what_was_compared_counts() -> None:
    first, last = recorded().stream[0], next(i for i in recorded().stream if i.is_compared)
    assert isinstance(first.outcome, Completed) and group_rewards.takes(first)
    assert not group_rewards.takes(last)
    assert first.envelope.run == RUN
