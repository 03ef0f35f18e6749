"""Gomoku against an opponent: five in a row (or `win`), on a board of any size.

The policy is shown the board and says its move as `row,column`, also as `<move>row,column</move>`;
the last one outside of `<think>` counts. A reward of 1 for a win, 0 for a draw, -1 for a loss. What
is no legal move costs `illegal_reward` and may be tried again; the third in a row loses. A game that
is longer than `moves` is cut (`truncated`), with no reward beyond those of its turns.

With `short`, for the smallest models, the policy is shown one line: the cells row by row, and says
the number of a cell.

Metrics: `win`, `loss`, `draw`, `timeout`, `illegal` (how many), `moves`, and `unreadable`, the share of
turns that named no cell of the board.
"""

import random
import re

from warren.environment import ConfigError, Context, Env, Limits, StepResult
from warren_env_worker.environments.gomoku_board import MARKS, Board, Cell, O, X
from warren_env_worker.environments.gomoku_players import Opponent, move
from warren_schemas.chat.answer_text import spoken

MAX_DEPTH = 4
"""Episodes of many owners share a process, and each wait for the moves of the others: on the largest board
depth 4 takes half a second, and each one more up to ten times as long."""
MAX_STRIKES = 3
_OPENINGS_TRIED = 1000
_MOVE = re.compile(r"<move>\s*(\d{1,3})\s*,\s*(\d{1,3})\s*</move>")
_PLAIN = re.compile(r"(?<![\d.])(\d{1,3})\s*,\s*(\d{1,3})(?![\d.])")


class Gomoku(Env):
    name = "gomoku"
    version = "1"
    isolation = "shared"
    limits = Limits(step_s=30.0)

    def __init__(
        self,
        size: int = 9,
        win: int = 5,
        opponent: Opponent = "greedy",
        noise: float = 0.0,
        depth: int = 4,
        first: bool | None = None,
        opening: int = 0,
        moves: int | None = None,
        illegal_reward: float = -0.1,
        short: bool = False,
    ) -> None:
        """`opponent` plays a random move with probability `noise`; `depth` is that of `search`, 1 to 4.

        `first`: the policy begins; null lets chance decide. `opening` random stones, half of each
        colour, lie there at the start. `moves` of the policy before the game is cut; null: no limit.
        """
        if not 2 <= win <= size <= 25:
            raise ConfigError(f"2 <= win <= size <= 25 must hold, not win {win} and size {size}")
        if opening % 2 or not 0 <= opening <= size * size // 4:
            raise ConfigError(f"opening must be even and at most {size * size // 4}, not {opening}")
        if not 1 <= depth <= MAX_DEPTH:
            raise ConfigError(f"depth must be 1 to {MAX_DEPTH}, not {depth}")
        if not 0 <= noise <= 1 or (moves is not None and moves < 1):
            raise ConfigError("noise must be 0 to 1, moves at least 1")
        self.board = Board(size, win)
        self.opponent: Opponent = opponent
        self.noise, self.depth, self.first, self.opening = noise, depth, first, opening
        self.moves, self.illegal_reward, self.short = moves, illegal_reward, short
        self.n_moves = self.n_illegal = self.n_strikes = self.n_unreadable = 0

    def system_prompt(self) -> str | None:
        if self.short:
            return None
        board = self.board
        return (
            f"You play Gomoku on a board of {board.size} by {board.size} and place"
            f" {MARKS[self.side]}. Who first has {board.win} in a row, across, down or diagonally,"
            " wins. Say your move as <move>row,column</move>, for example <move>0,2</move>."
        )

    def reset(self, task: None, ctx: Context) -> str:
        self.rng = ctx.member_rng
        begins = ctx.rng.random() < 0.5 if self.first is None else self.first
        self.side, self.other = (X, O) if begins else (O, X)
        self._open(ctx.rng)
        if not begins:
            self._answer()
        return self._shown()

    def step(self, action: str) -> StepResult:
        cell = self._read(action)
        self.n_unreadable += cell is None
        if cell is None or self.board.stones[cell]:
            return self._illegal()
        self.n_strikes = 0
        self.n_moves += 1
        self.board.place(cell, self.side)
        if not self.board.is_over:
            self._answer()
        if self.board.is_over:
            return self._over()
        if self.n_moves == self.moves:
            return StepResult(truncated=True, metrics=self._metrics("timeout"))
        return StepResult(self._shown())

    def demonstrate(self, rng: random.Random) -> str:
        """Any legal move: it shows what a move looks like."""
        return self._said(rng.choice(self.board.free))

    def _open(self, rng: random.Random) -> None:
        """Random stones that lie so that nobody has won. Raises `ConfigError`."""
        if not self.opening:
            return
        for _ in range(_OPENINGS_TRIED):
            if self._placed(rng.sample(self.board.free, self.opening)):
                return
        raise ConfigError(
            f"of {_OPENINGS_TRIED} openings of {self.opening} random stones each had"
            f" {self.board.win} in a row; take a smaller opening, or a larger win"
        )

    def _placed(self, cells: list[Cell]) -> bool:
        """Whether these stones lie there now; none does if they end the game."""
        for number, cell in enumerate(cells):
            self.board.place(cell, (X, O)[number % 2])
            if self.board.is_over:
                for taken in reversed(cells[: number + 1]):
                    self.board.undo(taken, None)
                return False
        return True

    def _answer(self) -> None:
        cell = move(self.board, self.other, self.opponent, self.rng, self.noise, self.depth)
        self.board.place(cell, self.other)

    def _illegal(self) -> StepResult:
        self.n_illegal += 1
        self.n_strikes += 1
        if self.n_strikes == MAX_STRIKES:
            return StepResult(reward=-1.0, done=True, metrics=self._metrics("loss"))
        shown = self._shown() if self.short else f"That is no legal move.\n\n{self._shown()}"
        return StepResult(shown, reward=self.illegal_reward)

    def _over(self) -> StepResult:
        winner = self.board.winner
        if winner == 0:
            return StepResult(reward=0.0, done=True, metrics=self._metrics("draw"))
        fate, reward = ("win", 1.0) if winner == self.side else ("loss", -1.0)
        return StepResult(reward=reward, done=True, metrics=self._metrics(fate))

    def _metrics(self, fate: str) -> dict[str, float]:
        fates = {name: float(name == fate) for name in ("win", "loss", "draw", "timeout")}
        return {
            **fates,
            "illegal": float(self.n_illegal),
            "moves": float(self.n_moves),
            "unreadable": self.n_unreadable / (self.n_moves + self.n_illegal),
        }

    def _read(self, action: str) -> Cell | None:
        size = self.board.size
        if self.short:
            is_number = action.isascii() and action.isdigit() and len(action) <= 3
            return int(action) if is_number and int(action) < size * size else None
        words = spoken(action)
        found = _MOVE.findall(words) or _PLAIN.findall(words)
        if not found:
            return None
        row, column = map(int, found[-1])
        return row * size + column if row < size and column < size else None

    def _said(self, cell: Cell) -> str:
        if self.short:
            return str(cell)
        return f"<move>{cell // self.board.size},{cell % self.board.size}</move>"

    def _shown(self) -> str:
        if self.short:
            marks = MARKS if self.side == X else ".OX"  # the policy's own stones are X
            return "".join(marks[stone] for stone in self.board.stones) + "?"
        last = self.board.last
        where = "" if last is None else f"\n\nLast move: {divmod(last, self.board.size)}"
        return f"{self.board.text()}{where}\n\nYour move ({MARKS[self.side]}):"
