"""Gomoku: the board against brute force, opponents against each other, and what a policy can do."""

import random
import sys
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.environment import ConfigError
from warren.testing import demonstrator, play
from warren_env_worker.environments.gomoku import MAX_DEPTH, Gomoku
from warren_env_worker.environments.gomoku_board import Board, O, X
from warren_env_worker.environments.gomoku_players import Opponent, move


def has_won(board: Board, side: int) -> bool:
    """By looking at every line."""
    size, win = board.size, board.win
    for row in range(size):
        for column in range(size):
            for down, right in ((0, 1), (1, 0), (1, 1), (1, -1)):
                cells = [(row + down * i, column + right * i) for i in range(win)]
                if all(0 <= r < size and 0 <= c < size for r, c in cells) and all(
                    board.stones[r * size + c] == side for r, c in cells
                ):
                    return True
    return False


@given(seed=st.integers(0, 10**6), size=st.integers(3, 9), data=st.data())
def test_the_winner_is_that_of_brute_force(seed: int, size: int, data: st.DataObject) -> None:
    board = Board(size, data.draw(st.integers(2, min(size, 5))))
    rng, side = random.Random(seed), X
    while not board.is_over:
        cell, last = rng.choice(board.free), board.last
        before = [list(counts) for counts in board.counts]
        board.place(cell, side)
        if rng.random() < 0.2:
            board.undo(cell, last)
            assert board.counts == before
            continue
        assert [has_won(board, s) for s in (X, O)] == [board.winner == s for s in (X, O)]
        side = 3 - side


def duel(first: Opponent, second: Opponent, seed: int, size: int = 6, win: int = 4) -> int:
    board, rng, side = Board(size, win), random.Random(seed), X
    while not board.is_over:
        player = first if side == X else second
        board.place(move(board, side, player, rng, 0.0, 2), side)
        side = 3 - side
    return board.winner


def test_row_43_each_opponent_is_stronger_than_the_one_before() -> None:
    assert [duel("random", "greedy", seed) for seed in range(20)] == [O] * 20
    won = [duel("greedy", "search", seed, 7, 5) for seed in range(4)]
    assert won.count(X) <= won.count(O) + 2


def test_row_43_the_outcome_is_counted() -> None:
    fates = {"win": 0.0, "loss": 0.0, "draw": 0.0, "timeout": 0.0}
    for seed in range(40):
        game = Gomoku(size=4, win=3, opponent="random", moves=4)
        episode = play(game, demonstrator(game, seed=seed), seed=seed)
        metrics = episode.results[-1].metrics
        assert sum(metrics[fate] for fate in fates) == 1.0
        fates = {fate: n + metrics[fate] for fate, n in fates.items()}
        expected = metrics["win"] - metrics["loss"]
        assert episode.reward == expected
        assert episode.results[-1].truncated == bool(metrics["timeout"])
    assert fates["win"] > 0
    assert fates["loss"] > 0


def test_three_illegal_moves_in_a_row_lose() -> None:
    said = iter(["nonsense", "<move>99,0</move>", "<think><move>0,0</move>"])
    episode = play(Gomoku(first=True), lambda _: next(said))
    assert [r.reward for r in episode.results] == [-0.1, -0.1, -1.0]
    assert episode.results[-1].metrics["illegal"] == 3.0
    assert episode.results[-1].metrics["unreadable"] == 1.0


def test_a_cell_that_is_taken_is_illegal_and_can_be_read() -> None:
    said = iter(["nonsense", "0,0", "0,0", "0,0", "0,0"])
    episode = play(Gomoku(first=True), lambda _: next(said))
    metrics = episode.results[-1].metrics
    assert (metrics["illegal"], metrics["moves"], metrics["unreadable"]) == (4.0, 1.0, 1 / 5)


@pytest.mark.parametrize(
    ("words", "cell"),
    [
        ("<move>1,2</move>", 11),
        ("<think><move>0,0</move></think>I take <move> 3 , 4 </move>.", 31),
        ("first <move>0,0</move>, no: <move>0,1</move>", 1),
        ("2,3", 21),
        ("9,0", None),
        ("1.5,2", None),
        ("", None),
        ("9" * 10_000, None),
    ],
)
def test_moves_are_read_from_words(words: str, cell: int | None) -> None:
    game = Gomoku()
    episode = play(game, lambda _: words, max_turns=1)
    assert episode.messages
    assert game._read(words) == cell  # pyright: ignore[reportPrivateUsage]


def test_the_side_the_opening_and_the_seed_are_those_of_the_task() -> None:
    shown = {
        play(Gomoku(opening=6), lambda _: "", seed=3, member=m).messages[1].content
        for m in range(4)
    }
    boards = {text.partition("Last")[0] for text in shown if "O" in text}
    assert boards
    second = play(Gomoku(first=False, opponent="random"), lambda _: "", seed=1, max_turns=1)
    assert second.messages[1].content.count("X") == 1
    assert "place O" in second.messages[0].content


def test_a_short_board_is_one_line_for_tiny_models() -> None:
    game = Gomoku(size=3, win=3, opponent="random", first=False, short=True)
    episode = play(game, lambda messages: str(messages[-1].content.index(".")), seed=5)
    assert episode.messages[0].role == "user"
    assert len(episode.messages[0].content) == 10
    assert episode.messages[0].content.count("O") == 1
    assert episode.results[-1].done


@pytest.mark.parametrize(
    "config",
    [
        {"size": 3, "win": 5},
        {"opening": 3},
        {"noise": 2.0},
        {"moves": 0},
        {"depth": 0},
        {"depth": 5},
        {"depth": 2**62},
    ],
)
def test_impossible_boards_are_refused(config: dict[str, int]) -> None:
    with pytest.raises(ConfigError):
        Gomoku(**config)  # pyright: ignore[reportArgumentType]


@contextmanager
def stones_placed() -> Generator[list[int]]:
    """Counts the stones that any board gets: the work of a move, whatever the machine."""
    counted = [0]

    def count(frame: FrameType, event: str, _: object) -> None:
        counted[0] += event == "call" and frame.f_code is Board.place.__code__

    sys.setprofile(count)
    try:
        yield counted
    finally:
        sys.setprofile(None)


@pytest.mark.slow
def test_the_largest_game_that_a_config_may_ask_looks_at_few_positions() -> None:
    """A shared process plays for others, too."""
    game = Gomoku(size=25, opponent="search", first=True, depth=MAX_DEPTH)
    with stones_placed() as n_placed:
        play(game, demonstrator(game, seed=0), max_turns=1)
    assert 0 < n_placed[0] <= 1500
    with stones_placed() as n_placed, pytest.raises(ConfigError, match="take a smaller opening"):
        play(Gomoku(size=25, win=2, opening=156), lambda _: "")
    assert n_placed[0] <= 60_000


def test_a_refused_opening_leaves_no_stone() -> None:
    game = Gomoku(size=9, win=3, opening=12)
    play(game, lambda _: "", seed=0, max_turns=1)
    board = game.board
    fresh = Board(board.size, board.win)
    for cell, side in enumerate(board.stones):
        if side:
            fresh.place(cell, side)
    assert (board.counts, board.n_free) == (fresh.counts, fresh.n_free)


def test_an_opening_that_hardly_exists_is_refused() -> None:
    crowded = Gomoku(size=9, win=2, opening=20)
    with pytest.raises(ConfigError, match="take a smaller opening, or a larger win"):
        play(crowded, lambda _: "")
