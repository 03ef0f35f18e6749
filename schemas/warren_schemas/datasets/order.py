"""The order in which the tasks of a split are drawn.

With N tasks, index `i` of a run lies in epoch `i // N`; each epoch passes through all tasks once,
in an order of its own. The order depends on the run's order seed, the split and the epoch, and on
nothing else: every worker finds the same task behind an index, whenever it is asked. A run may use
only some of the tasks, chosen once, or take them in the order of the data.
"""

import hashlib
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

_CHOICE = -1
"""The epoch whose order decides which tasks are used at all."""


@dataclass(frozen=True, slots=True)
class Order:
    split: str
    seed: int
    shuffle: bool = True
    num_samples: int | None = None
    """Only so many tasks are used; None: all."""

    def position(self, index: int, n_tasks: int) -> int:
        """Which of the `n_tasks` is the `index`-th of the run: 0 to `n_tasks - 1`."""
        n_used = min(self.num_samples or n_tasks, n_tasks)
        epoch, offset = divmod(index, n_used)
        if not self.shuffle:
            return offset
        place = int(_permutation(n_used, self.split, self.seed, epoch)[offset])
        if n_used == n_tasks:
            return place
        return int(_permutation(n_tasks, self.split, self.seed, _CHOICE)[place])


@lru_cache(maxsize=16)
def _permutation(n_tasks: int, split: str, seed: int, epoch: int) -> NDArray[np.int64]:
    what = f"{seed}\0{split}\0{epoch}"
    key = int.from_bytes(hashlib.blake2b(what.encode(), digest_size=8).digest())
    return np.random.Generator(np.random.PCG64(key)).permutation(n_tasks)
