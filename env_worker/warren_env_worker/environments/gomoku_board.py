"""A Gomoku board that knows its winner after every move, in time that does not grow with the board.

Every line of five (or of `win` stones) is a window. A window counts the stones of each side in it;
a stone changes the counts of the at most 4 x `win` windows that it lies in. A side whose count
reaches `win` has won.
"""

from collections.abc import Iterator
from functools import lru_cache

EMPTY, X, O = 0, 1, 2
MARKS = ".XO"
Cell = int
"""Row times the board's size, plus the column."""


class Board:
    def __init__(self, size: int, win: int) -> None:
        self.size = size
        self.win = win
        self.stones = [EMPTY] * (size * size)
        self.n_free = size * size
        self.winner = EMPTY
        self.last: Cell | None = None
        self._windows = windows_by_cell(size, win)
        self.counts = [[0, 0, 0] for _ in range(n_windows(size, win))]

    def place(self, cell: Cell, side: int) -> None:
        """A stone on a free cell."""
        self.stones[cell] = side
        self.n_free -= 1
        self.last = cell
        for window in self._windows[cell]:
            self.counts[window][side] += 1
            if self.counts[window][side] == self.win:
                self.winner = side

    def undo(self, cell: Cell, last: Cell | None) -> None:
        """Take the stone away that was placed last; `last` is the one before it."""
        side, self.stones[cell] = self.stones[cell], EMPTY
        self.n_free += 1
        self.winner = EMPTY
        self.last = last
        for window in self._windows[cell]:
            self.counts[window][side] -= 1

    @property
    def free(self) -> list[Cell]:
        return [cell for cell, stone in enumerate(self.stones) if stone == EMPTY]

    @property
    def is_over(self) -> bool:
        return self.winner != EMPTY or self.n_free == 0

    def windows_of(self, cell: Cell) -> Iterator[list[int]]:
        """Of each window through the cell, how many stones each side has in it."""
        for window in self._windows[cell]:
            yield self.counts[window]

    def text(self) -> str:
        """A grid with numbered rows and columns; `X`, `O`, and `.` for a free cell."""
        width = len(str(self.size - 1))
        head = " " * width + " " + " ".join(str(c).rjust(width) for c in range(self.size))
        return "\n".join([head, *(self._row(row, width) for row in range(self.size))])

    def _row(self, row: int, width: int) -> str:
        stones = self.stones[row * self.size : (row + 1) * self.size]
        return " ".join([str(row).rjust(width), *(MARKS[s].rjust(width) for s in stones)])


@lru_cache(maxsize=16)
def _all_windows(size: int, win: int) -> list[tuple[Cell, ...]]:
    found: list[tuple[Cell, ...]] = []
    for row in range(size):
        for column in range(size):
            for down, right in ((0, 1), (1, 0), (1, 1), (1, -1)):
                ends = row + down * (win - 1), column + right * (win - 1)
                if ends[0] < size and 0 <= ends[1] < size:
                    steps = range(win)
                    found.append(tuple((row + down * i) * size + column + right * i for i in steps))
    return found


def n_windows(size: int, win: int) -> int:
    return len(_all_windows(size, win))


@lru_cache(maxsize=16)
def windows_by_cell(size: int, win: int) -> list[list[int]]:
    """The numbers of the windows that each cell lies in."""
    by_cell: list[list[int]] = [[] for _ in range(size * size)]
    for number, cells in enumerate(_all_windows(size, win)):
        for cell in cells:
            by_cell[cell].append(number)
    return by_cell
