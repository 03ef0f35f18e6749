"""Advantages of the members of a batch of groups, from their returns.

Suffixes: `_G` the members of one group, `_B` those of all groups of a batch.

Invariant: a group in which all members did the same carries no signal and gets None, whatever the
method, and has no part in the statistics of the batch.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from warren_schemas.config import AdvantageKind

SAME = 1e-6
"""Returns that differ by less carry no signal."""
_SMALL = 1e-4
"""Added to a standard deviation before it divides."""

OF_BATCH = frozenset({AdvantageKind.BATCH_MEAN, AdvantageKind.BATCH_STD})
"""Methods that compare with the batch, not with the group."""

Floats = NDArray[np.float64]


def advantages(groups: Sequence[Floats], kind: AdvantageKind) -> list[Floats | None]:
    """How well each member of each group did; None where all did the same.

    `group_std`: (r - mean) / (std + 1e-4) with the sample standard deviation (GRPO, Shao et al.
    2024, eq. 3). `group_mean`: r - mean (Dr. GRPO, Liu et al. 2025, section 3.2).
    `leave_one_out`: r - mean of the others (RLOO, Kool et al. 2019; Ahmadian et al. 2024).
    `direct`: r (REINFORCE, Williams 1992). `centered` and `centered_normalized` are what OpenReward's
    example calls r - mean and (r - mean) / std of the group. `batch_mean`: r - mean of the batch.
    `batch_std`: (r - mean) / (std + 1e-4) of the batch (Andrychowicz et al. 2021).
    """
    telling = [returns_G for returns_G in groups if tells(returns_G)]
    returns_B = np.concatenate(telling) if telling else np.zeros(0)
    return [_of_group(g, returns_B, kind) if tells(g) else None for g in groups]


def tells(returns_G: Floats) -> bool:
    """Whether members can be compared, and one did better than another."""
    return returns_G.size >= 2 and bool(np.ptp(returns_G) >= SAME)


def _of_group(returns_G: Floats, returns_B: Floats, kind: AdvantageKind) -> Floats:
    match kind:
        case AdvantageKind.GROUP_MEAN | AdvantageKind.CENTERED:
            return returns_G - returns_G.mean()
        case AdvantageKind.GROUP_STD:
            return (returns_G - returns_G.mean()) / (returns_G.std(ddof=1) + _SMALL)
        case AdvantageKind.LEAVE_ONE_OUT:
            others_G = (returns_G.sum() - returns_G) / (returns_G.size - 1)
            return returns_G - others_G
        case AdvantageKind.DIRECT:
            return returns_G
        case AdvantageKind.CENTERED_NORMALIZED:
            return (returns_G - returns_G.mean()) / returns_G.std(ddof=1)
        case AdvantageKind.BATCH_MEAN:
            return returns_G - returns_B.mean()
        case AdvantageKind.BATCH_STD:
            return (returns_G - returns_B.mean()) / (returns_B.std(ddof=1) + _SMALL)
