"""Opponents for Gomoku, from random to search.

`random`    any free cell
`greedy`    the cell that is worth most: own lines to be finished and the other side's to be blocked;
            with probability `noise` a random one
`search`    negamax with alpha-beta over the most valuable cells, `depth` moves ahead, greedy's
            values at the leaves (Knuth and Moore 1975)
"""

import random
from typing import Literal

from warren_env_worker.environments.gomoku_board import Board, Cell

Opponent = Literal["random", "greedy", "search"]

_BASE = 6.0
"""One stone more in an open line is worth so many times as much."""
_WON = 1e9
_WIDTHS = (8, 6, 5)
"""How many cells the search looks at, by depth; then the last again."""


def move(
    board: Board, side: int, player: Opponent, rng: random.Random, noise: float, depth: int
) -> Cell:
    """Where this player puts its stone; the board must have a free cell."""
    free = board.free
    if player == "random" or (noise and rng.random() < noise):
        return rng.choice(free)
    if player == "greedy":
        return best(board, side, rng)
    return searched(board, side, depth, rng)


def best(board: Board, side: int, rng: random.Random) -> Cell:
    """The most valuable cell; chance decides between equals."""
    values = {cell: value(board, cell, side) for cell in board.free}
    most = max(values.values())
    return rng.choice([cell for cell, worth in values.items() if worth == most])


def value(board: Board, cell: Cell, side: int) -> float:
    """What a stone here is worth: to go on with own lines, and to stop the other side's."""
    other = 3 - side
    worth = 0.0
    for counts in board.windows_of(cell):
        mine, theirs = counts[side], counts[other]
        if mine and theirs:
            continue
        if mine == board.win - 1:
            worth += _WON
        elif theirs == board.win - 1:
            worth += _WON / 100
        else:
            worth += _BASE**mine + 0.7 * _BASE**theirs
    return worth


def searched(board: Board, side: int, depth: int, rng: random.Random) -> Cell:
    """The best move by negamax; chance decides between equals."""
    scored = [
        (_after(board, cell, side, depth, -_WON, _WON), cell)
        for cell in _candidates(board, side, 0)
    ]
    most = max(score for score, _ in scored)
    return rng.choice([cell for score, cell in scored if score == most])


def _negamax(board: Board, side: int, depth: int, low: float, high: float, level: int) -> float:
    if board.winner:
        return -_WON
    if board.n_free == 0:
        return 0.0
    if depth == 0:
        return _standing(board, side)
    for cell in _candidates(board, side, level):
        low = max(low, _after(board, cell, side, depth, low, high, level))
        if low >= high:
            break
    return low


def _after(
    board: Board, cell: Cell, side: int, depth: int, low: float, high: float, level: int = 0
) -> float:
    last = board.last
    board.place(cell, side)
    score = -_negamax(board, 3 - side, depth - 1, -high, -low, level + 1)
    board.undo(cell, last)
    return score * 0.99  # a win that is nearer is better


def _candidates(board: Board, side: int, level: int) -> list[Cell]:
    width = _WIDTHS[min(level, len(_WIDTHS) - 1)]
    return sorted(board.free, key=lambda cell: value(board, cell, side), reverse=True)[:width]


def _standing(board: Board, side: int) -> float:
    """What the open lines of this side are worth, less those of the other."""
    total = 0.0
    for counts in board.counts:
        mine, theirs = counts[side], counts[3 - side]
        if mine and not theirs:
            total += _BASE**mine
        elif theirs and not mine:
            total -= _BASE**theirs
    return total
