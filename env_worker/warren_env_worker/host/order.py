"""The order in which the tasks of a split are drawn.

With N tasks, index `i` of a run lies in epoch `i // N`; each epoch passes through all tasks once,
in an order of its own. The order depends on the run's order seed, the split and the epoch, and on
nothing else: every worker finds the same task behind an index, whenever it is asked.
"""

import hashlib
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray


def position(index: int, n_tasks: int, split: str, seed: int) -> int:
    """Which of the `n_tasks` is the `index`-th of the run: 0 to `n_tasks - 1`."""
    epoch, offset = divmod(index, n_tasks)
    return int(_permutation(n_tasks, split, seed, epoch)[offset])


@lru_cache(maxsize=8)
def _permutation(n_tasks: int, split: str, seed: int, epoch: int) -> NDArray[np.int64]:
    what = f"{seed}\0{split}\0{epoch}"
    key = int.from_bytes(hashlib.blake2b(what.encode(), digest_size=8).digest())
    return np.random.Generator(np.random.PCG64(key)).permutation(n_tasks)
