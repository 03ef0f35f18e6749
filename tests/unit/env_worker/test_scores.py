"""`score` of an environment: what it is told of its episode, in a live episode and in `play`."""

import re

import pytest

from warren.environment import (
    ChatMessage,
    Env,
    EpisodeTranscript,
    PromptTokens,
    ScoreResult,
    StepResult,
)
from warren.testing import Policy, play
from warren_env_worker.host.child import contract
from warren_env_worker.host.child.episode_record import EpisodeRecord
from warren_env_worker.host.refusal import Refusal


class Told(Env):
    """Remembers what `score` was told."""

    def __init__(self, truncates: bool = False) -> None:
        self.truncates = truncates
        self.told: list[EpisodeTranscript] = []

    def system_prompt(self) -> str:
        return "Be brief."

    def reset(self, task: object, ctx: object) -> str:
        self.n_taken = 0
        return "Say a, then b."

    def step(self, action: str) -> StepResult:
        self.n_taken += 1
        if self.n_taken == 1:
            return StepResult("Go on.", metrics={"first": 1.0, "last": 1.0})
        is_over = action == "b"
        return StepResult(
            "Bye.", reward=0.5, done=is_over and not self.truncates, truncated=is_over and self.truncates,
            metrics={"last": 2.0}, earlier={1: 0.25},
        )  # fmt: skip

    def score(self, transcript: EpisodeTranscript) -> float:
        self.told.append(transcript)
        return float(len(transcript.actions))


def said(words: str) -> Policy:
    left = iter(words)

    def policy(shown: object) -> str:
        return next(left)

    return policy


def test_it_is_told_all_that_was_shown_and_said_and_what_it_was_worth() -> None:
    environment = Told()
    assert play(environment, said("ab")).reward == 2.75
    (told,) = environment.told
    assert [(message.role, message.content) for message in told.messages] == [
        ("system", "Be brief."), ("user", "Say a, then b."), ("assistant", "a"), ("user", "Go on."),
        ("assistant", "b"), ("user", "Bye."),
    ]  # fmt: skip
    assert (told.rewards, told.reward) == ([0.25, 0.5], 0.75)
    assert told.metrics == {"first": 1.0, "last": 2.0}
    assert (told.response, told.ending) == ("b", "done")


@pytest.mark.parametrize(
    ("environment", "words", "max_turns", "ending"),
    [(Told(truncates=True), "ab", 9, "truncated"), (Told(), "ac", 2, "max_turns")],
)
def test_it_is_told_how_the_episode_ended(
    environment: Told, words: str, max_turns: int, ending: str
) -> None:
    play(environment, said(words), max_turns=max_turns)
    assert [told.ending for told in environment.told] == [ending]


class Measured(Told):
    """Has found out more than the reward."""

    def score(self, transcript: EpisodeTranscript) -> ScoreResult:  # pyright: ignore[reportIncompatibleMethodOverride]
        return ScoreResult(2.0, {"last": 3.0, "length": 7.0})


def test_metrics_beside_the_score_are_no_parts_of_it() -> None:
    played = play(Measured(), said("ab"))
    assert played.reward == 2.75
    assert played.results[-1].metrics == {"last": 3.0, "length": 7.0}
    given = Measured().score(EpisodeTranscript(()))
    assert contract.score(given) == (2.0, {"last": 3.0, "length": 7.0})


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (ScoreResult(float("nan")), "score() returned the reward nan"),
        (ScoreResult(1.0, {"x": float("inf")}), "score() returned the metric x = inf"),
    ],
)
def test_a_score_of_no_number_is_refused(given: ScoreResult, told: str) -> None:
    with pytest.raises(Refusal, match=re.escape(told)):
        contract.score(given)


def test_nothing_was_given_where_no_turn_gave_anything() -> None:
    assert EpisodeTranscript((), (None, None)).reward is None


def test_where_nobody_asks_for_it_no_record_is_kept() -> None:
    for is_kept, n_kept in ((True, 3), (False, 0)):
        record = EpisodeRecord(is_kept=is_kept)
        record.show([("user", "?"), ("assistant", "quoted")], [])
        record.act("a", 1.0, {}, [])
        messages = record.transcript("done").messages
        assert len(messages) == n_kept
        assert [message.is_action for message in messages] == [False, False, True][:n_kept]


def test_what_is_shown_as_tokens_is_counted() -> None:
    record = EpisodeRecord(is_kept=True)
    record.show([], PromptTokens([1, 2, 3]).ids)
    assert record.transcript("done").messages == (ChatMessage(role="user", content="", n_tokens=3),)
