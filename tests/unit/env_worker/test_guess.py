"""The guessing game: rewards, hints, and what random and clever play score."""

import random
from collections.abc import Sequence

import pytest

from warren.environment import ChatMessage, ConfigError, Context
from warren.testing import Policy, demonstrator, play
from warren_env_worker.environments.guess import Guess


def hidden(seed: int) -> int:
    guess = Guess()
    guess.reset(None, Context.derive(seed))
    return guess.hidden


def bisect(messages: Sequence[ChatMessage]) -> str:
    low, high = 0, 9
    for shown, said in zip(messages[2::2], messages[1::2], strict=False):
        if shown.content == "<":
            high = int(said.content) - 1
        else:
            low = int(said.content) + 1
    return str((low + high) // 2)


def mean_reward(policy: Policy, n: int = 2000) -> float:
    return sum(play(Guess(), policy, seed=seed).reward for seed in range(n)) / n


def test_the_hidden_number_found_at_once() -> None:
    episode = play(Guess(), lambda _: str(hidden(3)), seed=3)
    assert episode.reward == 1.0
    assert [m.content for m in episode.messages] == ["?", str(hidden(3))]
    assert episode.results[-1].metrics == {"exact": 1.0, "unreadable": 0.0}


def test_hints_point_at_the_hidden_number() -> None:
    game = Guess()
    game.reset(None, Context.derive(3))
    for guess in range(10):
        game.n_left = 4
        shown = game.step(str(guess)).observation
        assert shown == ("" if guess == game.hidden else "<" if game.hidden < guess else ">")


def test_four_wrong_guesses_are_worth_nothing() -> None:
    wrong = str((hidden(3) + 1) % 10)
    episode = play(Guess(), lambda _: wrong, seed=3)
    assert [result.reward for result in episode.results] == [None, None, None, 0.0]
    assert episode.results[-1].metrics == {"exact": 0.0, "unreadable": 0.0}


@pytest.mark.parametrize(
    "word", ["", "x", "10", "-1", "05", " 5", "5 ", "5\n", "²", "\u0665", "9" * 5000]
)
def test_anything_but_a_number_of_the_range_is_unreadable(word: str) -> None:
    episode = play(Guess(), lambda _: word)
    assert episode.reward == -0.5
    assert episode.results[-1].metrics == {"exact": 0.0, "unreadable": 1.0}
    assert len(episode.results) == 1


def test_bisection_finds_every_number() -> None:
    assert mean_reward(bisect, 200) == 1.0


def test_uniform_demonstrations_score_what_they_should() -> None:
    game_rng = random.Random(0)
    assert mean_reward(lambda _: Guess().demonstrate(game_rng)) == pytest.approx(0.345, abs=0.03)


def test_all_numbers_are_hidden_equally_often() -> None:
    counts = [0] * 10
    for seed in range(5000):
        counts[hidden(seed)] += 1
    assert min(counts) > 400
    assert max(counts) < 600


def test_demonstrations_are_legal() -> None:
    game = Guess(low=3, high=5)
    assert {demonstrator(game, seed=seed)([]) for seed in range(50)} == {"3", "4", "5"}


@pytest.mark.parametrize("config", [{"low": 5, "high": 4}, {"low": -1}, {"guesses": 0}])
def test_impossible_configs_are_refused(config: dict[str, int]) -> None:
    with pytest.raises(ConfigError):
        Guess(**config)
