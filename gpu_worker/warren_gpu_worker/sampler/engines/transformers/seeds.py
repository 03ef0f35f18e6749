"""Seeds: a row's n-th token is drawn at a place that its seed and n alone decide.

So it doesn't matter which rows decode beside it, nor whether the row began anew.
"""

from collections.abc import Sequence

import numpy as np

from warren_gpu_worker.sampler.engines.port import Request


def fixed_places(rows: Sequence[Request]) -> dict[int, float]:
    """Of each row with a seed, by its number: where between 0 and 1 its next token is drawn."""
    return {
        number: _place(row.options.seed, len(row.ids))
        for number, row in enumerate(rows)
        if row.options.seed is not None
    }


def _place(seed: int, n_drawn: int) -> float:
    return float(np.random.Generator(np.random.Philox(key=seed, counter=n_drawn)).random())
