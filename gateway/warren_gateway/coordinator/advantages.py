"""Advantages of the members of one group, from their rewards.

Suffix `_G`: the members of one group.
"""

import numpy as np
from numpy.typing import NDArray

from warren_schemas.config import AdvantageKind

SAME = 1e-6
"""Rewards that differ by less carry no signal."""


def advantages(rewards_G: NDArray[np.float64], kind: AdvantageKind) -> NDArray[np.float64] | None:
    """How much better each member did than its group; None where all did the same.

    `group_std`: (r - mean) / (std + 1e-4) with the sample standard deviation (GRPO, Shao et al.
    2024, eq. 3). `group_mean`: r - mean (Dr. GRPO, Liu et al. 2025, section 3.2).
    """
    if rewards_G.size < 2 or np.ptp(rewards_G) < SAME:
        return None
    centered_G = rewards_G - rewards_G.mean()
    if kind is AdvantageKind.GROUP_MEAN:
        return centered_G
    return centered_G / (rewards_G.std(ddof=1) + 1e-4)
