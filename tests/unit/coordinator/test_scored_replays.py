"""Replays that have what was recorded scored anew, in a world in which env workers do it, twice, late, or never.

`ScoringWorld` stands for the env workers: what it gives follows from what was said alone. What a replay has to make of that is what a
replay makes of a recording that has these rewards in it.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pytest
from pydantic import ValidationError
from tests.unit.coordinator.test_recording import SFT, ops_of
from tests.unit.coordinator.world import RUN, ReplayWorld, World, config

from warren_gateway.coordinator.rollouts.fair_shares import wanted
from warren_gateway.coordinator.rollouts.starting import unanswered
from warren_gateway.stop_request import StopRequest
from warren_schemas.config import RecordedSource
from warren_schemas.control import EpisodeCancelled, WorkerRole
from warren_schemas.envelope import Item
from warren_schemas.episode import (
    Completed,
    EpisodeEnded,
    EpisodePurpose,
    Failed,
    FailureKind,
    Step,
    StopReason,
)
from warren_schemas.events import RunState, WaitingStarted
from warren_schemas.transcript import Branch, ChatMessage, Transcript, Turn

Score = Callable[[int], Completed | Failed]
"""By the number that marks what was said."""

PATIENT = {"steps": 1000, "episode_attempts": 100}
"""However often an env worker dies of an episode."""
NOT_THE_SAME = Failed(
    kind=FailureKind.NOT_REPLAYABLE, reason="it showed something else", retryable=False
)


def mark_of(transcript: Transcript) -> int:
    return int(transcript.tokens.ids_T[0])


def by_mark(mark: int) -> Completed | Failed:
    return Completed(reward=float(mark * 7 % 5), stop=StopReason.TRUNCATED)


def two_in_three(mark: int) -> Completed | Failed:
    return NOT_THE_SAME if mark % 3 == 0 else by_mark(mark)


def some_truncated(mark: int) -> Completed | Failed:
    stop = StopReason.DONE if mark % 2 else StopReason.TRUNCATED
    return Completed(reward=float(mark * 7 % 5), stop=stop)


def never(mark: int) -> Completed | Failed:
    return NOT_THE_SAME


@dataclass
class ScoringWorld(ReplayWorld):
    score: Score = by_mark
    to_score: list[Step] = field(default_factory=list[Step])
    n_sent: int = 0
    turns_told: tuple[Turn, ...] = ()
    """In place of those that there were."""

    def _receive(self, address_kind: str, item: Item) -> None:
        if isinstance(item, Step):
            assert item.spec.purpose is EpisodePurpose.TRAIN
            assert not any(turn.reward for turn in item.transcript.turns)
            assert item.transcript.messages[-1].is_action
            self.to_score.append(item)
            self.n_sent += 1
        elif isinstance(item, EpisodeCancelled):
            ours = item.envelope.episode
            self.to_score = [step for step in self.to_score if step.envelope.episode != ours]
        else:
            super()._receive(address_kind, item)

    def finish_episode(self) -> None:
        if self.to_score and self.away is not WorkerRole.ENVIRONMENT:
            step = self.to_score.pop(self.rng.randrange(len(self.to_score)))
            self.stream += [self._scored(step)] * self.rng.choice((1, 1, 2))

    def lose_episode(self) -> None:
        """Whoever had it died, and nobody takes it over; the deadline comes nearer."""
        if self.to_score:
            self.to_score.pop(self.rng.randrange(len(self.to_score)))
        self.now_s += self.config.limits.episode_s / 4

    def _scored(self, step: Step) -> EpisodeEnded:
        assert step.recorded_stop is not None
        outcome, before = self.score(mark_of(step.transcript)), step.transcript
        reward = outcome.reward if isinstance(outcome, Completed) else None
        turns = self.turns_told or (*before.turns, Turn(reward=reward, digest="new"))
        return EpisodeEnded(
            envelope=step.envelope, spec=step.spec, outcome=outcome, worker="env",
            transcript=before.model_copy(update={"turns": turns}), started_s=1.0, ended_s=2.0,
        )  # fmt: skip


@cache
def played(seed: int = 11) -> World:
    world = World(config(sft=SFT), random.Random(seed), failure_rate=0.1)
    world.drive(0.01)
    assert world.state.run_state is RunState.COMPLETED
    return world


def scoring(score: Score, **changes: Any) -> ScoringWorld:
    source = {"rewards": "scored"} | changes.pop("source", {})
    changes = {"limits": PATIENT} | changes
    world = ScoringWorld.of(played(), random.Random(9), source=source, **changes)
    assert isinstance(world, ScoringWorld)
    world.score = score
    return world


def expected(score: Score, **source: Any) -> list[str]:
    """The ops of a replay of a recording that has these rewards in it."""
    world = ReplayWorld.of(played(), random.Random(3), source=source, limits=PATIENT)
    world.recorded = [_with_outcome(item, score) for item in played().stream]
    world.drive(0.0)
    assert world.state.run_state is RunState.COMPLETED, world.error
    return ops_of(world)


def _with_outcome(item: EpisodeEnded, score: Score) -> EpisodeEnded:
    is_scored = isinstance(item.outcome, Completed) and item.spec.purpose is EpisodePurpose.TRAIN
    outcome = score(mark_of(item.transcript)) if is_scored else item.outcome
    return item.model_copy(update={"outcome": outcome})


def as_recorded(mark: int) -> Completed | Failed:
    return next(item.outcome for item in played().stream if mark_of(item.transcript) == mark)


@pytest.mark.slow
@pytest.mark.parametrize("chaos", [0.0, 0.02])
@pytest.mark.parametrize("score", [as_recorded, by_mark, two_in_three])
def test_the_ops_are_those_of_a_recording_with_these_rewards(score: Score, chaos: float) -> None:
    world = scoring(score)

    world.drive(chaos)

    assert world.state.run_state is RunState.COMPLETED, world.error
    assert ops_of(world) == expected(score)
    assert (ops_of(world) == expected(as_recorded)) is (score is as_recorded)


def test_a_truncated_episode_gets_what_the_replay_gives_and_not_what_was_given() -> None:
    """Where the rewards of turns are trained on, the last one has it."""
    by_turn = {"credit": {"kind": "turn"}, "advantage": "group_mean"}
    worlds = [
        scoring(some_truncated, algorithm=by_turn, environments=[{"name": "guess", **extra}])
        for extra in ({}, {"nonterminal_reward": -9.0})
    ]
    for world in worlds:
        world.drive(0.0)
        assert world.state.run_state is RunState.COMPLETED, world.error
    without, with_it = map(ops_of, worlds)
    assert with_it != without


def test_epochs_and_a_window_are_those_of_other_replays() -> None:
    world = scoring(by_mark, source={"epochs": 2, "shuffle_window": 3})

    world.drive(0.02)

    assert world.state.run_state is RunState.COMPLETED, world.error
    assert ops_of(world) == expected(by_mark, epochs=2, shuffle_window=3)


def test_what_cannot_be_scored_fails_and_ends_the_run_with_the_reason() -> None:
    world = scoring(never)

    world.drive(0.0)

    assert world.state.run_state is RunState.FAILED
    assert world.error.endswith("that could be scored anew: it showed something else")
    n_failed = world.state.rollouts.failures[FailureKind.NOT_REPLAYABLE]
    assert 0 < n_failed <= world.n_sent, "each was tried once"
    assert not world.state.rollouts.groups


def test_env_workers_that_lose_everything_are_asked_as_often_as_the_limits_say() -> None:
    world = scoring(by_mark, limits={"steps": 1000, "episode_attempts": 2})

    for _ in range(1000):
        if world.state.is_over:
            break
        world.to_score.clear()
        world.now_s += world.config.limits.episode_s
        world.train()
        world.read_mail()

    assert world.state.run_state is RunState.FAILED
    assert "the episode had not ended 50 s after its start" in world.error


def test_without_an_env_worker_it_waits_and_sends_nothing() -> None:
    world = scoring(by_mark)
    world.away = WorkerRole.ENVIRONMENT
    for _ in range(200):
        world.now_s += 1.0
        world.move()
    waiting = [event.body for event in world.events if isinstance(event.body, WaitingStarted)]
    assert world.n_sent == 0
    assert "no env worker offers guess" in waiting[-1].reason

    world.away = None
    world.drive(0.0)

    assert world.state.run_state is RunState.COMPLETED, world.error
    assert ops_of(world) == expected(by_mark)


def test_a_pause_takes_back_what_was_sent_and_costs_nothing() -> None:
    world = scoring(by_mark, limits={"steps": 1000, "episode_attempts": 1})
    while not world.to_score:
        world.move()
    world.state.observed.stop_request = StopRequest.PAUSE
    for _ in range(200):
        world.move()
    assert world.state.run_state is RunState.PAUSED
    assert not world.to_score

    world.state.observed.stop_request = None
    world.drive(0.0)

    assert world.state.run_state is RunState.COMPLETED, world.error
    assert steps_of(ops_of(world)) == steps_of(expected(by_mark))


def steps_of(ops: list[str]) -> list[str]:
    """Without checkpoints: a pause saves one more."""
    return [op for op in ops if '"kind":"save_state"' not in op]


def test_a_run_that_finishes_early_has_nothing_more_scored() -> None:
    world = scoring(by_mark)
    while world.state.learning.steps.n_published < SFT["steps"] + 1 or not world.to_score:
        world.move()
    n_sent, world.state.observed.stop_request = world.n_sent, StopRequest.FINISH

    world.drive(0.0)

    assert world.state.run_state is RunState.COMPLETED, world.error
    assert (world.n_sent, world.to_score) == (n_sent, [])


def test_no_more_is_sent_than_the_next_steps_need_and_env_workers_have_room_for() -> None:
    world, most = scoring(by_mark), 0
    algorithm = world.config.algorithm
    share = algorithm.group_size + 1
    while not world.state.is_over:
        world.state.observed.shares = {"guess": share}
        world.move()
        most = max(most, world.state.rollouts.groups.in_flight.total())
    assert ops_of(world) == expected(by_mark)
    assert algorithm.group_size < most <= share + algorithm.group_size
    assert wanted(world.config, "me") == {
        "guess": 2 * algorithm.groups_per_step * algorithm.group_size
    }


def test_an_environment_that_the_replay_does_not_name_gives_no_reward() -> None:
    world = scoring(by_mark, environments=[{"name": "other"}])

    world.drive(0.0)

    assert world.state.run_state is RunState.FAILED
    assert world.n_sent == 0


def test_an_answer_about_other_turns_is_a_failure() -> None:
    world = scoring(by_mark)
    world.turns_told = (Turn(digest="one"), Turn(digest="two"))

    world.drive(0.0)

    assert world.state.run_state is RunState.FAILED
    plain = ReplayWorld.of(played(), random.Random(3), limits=PATIENT)
    plain.drive(0.0)
    dropped = world.state.rollouts.dropped_groups["failed"]
    assert dropped > plain.state.rollouts.dropped_groups.get("failed", 0)


def said(*words: str) -> tuple[ChatMessage, ...]:
    roles = ("user", "assistant") * len(words)
    return tuple(ChatMessage(role=r, content=w) for r, w in zip(roles, words, strict=False))


def turn(branch: int = 0) -> Turn:
    return Turn(reward=1.0, digest="d", metrics={"exact": 1.0}, branch=branch)


def test_a_transcript_without_its_last_answer_ends_with_the_action_and_has_no_rewards() -> None:
    whole = Transcript(messages=said("?", "1", "no", "2", "yes"), turns=(turn(), turn()))

    found = unanswered(whole)

    assert found is not None
    assert [m.content for m in found.messages] == ["?", "1", "no", "2"]
    assert found.turns == (Turn(digest="d"),)
    assert found.actions == ["1", "2"]


def test_a_conversation_that_began_with_the_last_answer_is_left_out() -> None:
    first = Branch(number=0, messages=said("?", "1"), n_rendered=2, tokens=Transcript().tokens)
    whole = Transcript(messages=said("again?"), turns=(turn(),), branch=1, set_aside=(first,))

    found = unanswered(whole)

    assert found is not None
    assert (found.branch, found.set_aside, found.actions) == (0, (), ["1"])


@pytest.mark.parametrize(
    "whole",
    [
        Transcript(messages=said("?")),
        Transcript(messages=said("?", "1"), turns=(turn(), turn())),
        Transcript(messages=said("?", "1"), turns=(turn(3),)),
    ],
)
def test_a_transcript_whose_actions_cannot_be_told_apart_is_not_scored(whole: Transcript) -> None:
    assert unanswered(whole) is None


@pytest.mark.parametrize("origin", [{"run": RUN, "from_archive": True}, {"dataset": "monday"}])
def test_files_are_not_scored(origin: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="score from the run's stream"):
        RecordedSource.model_validate(origin | {"rewards": "scored"})
