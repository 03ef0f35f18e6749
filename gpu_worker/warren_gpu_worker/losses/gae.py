"""Generalized advantage estimation.

Legend as in the package; K masked tokens of one row, in order.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def generalized_advantages(
    rewards_BT: Floats,
    values_BT: Floats,
    mask_BT: NDArray[np.bool_],
    *,
    gamma: float,
    gae_lambda: float,
) -> Floats:
    """A_k = δ_k + g λ A_{k+1}  with  δ_k = r_k + g V_{k+1} - V_k  and  g = gamma

    Schulman et al. 2016, equation 16. The steps of a row are its masked tokens, whatever stands
    between them; after the last one nothing follows, so V and A are 0 there. 0 outside the mask.
    Float64 [B, T].
    """
    advantages_BT = np.zeros(mask_BT.shape)
    next_advantage_B, next_value_B = np.zeros(len(mask_BT)), np.zeros(len(mask_BT))
    for t in np.flatnonzero(mask_BT.any(0))[::-1].tolist():
        delta_B = rewards_BT[:, t] + gamma * next_value_B - values_BT[:, t]
        advantage_B = delta_B + gamma * gae_lambda * next_advantage_B
        next_advantage_B = np.where(mask_BT[:, t], advantage_B, next_advantage_B)
        next_value_B = np.where(mask_BT[:, t], values_BT[:, t], next_value_B)
        advantages_BT[:, t] = np.where(mask_BT[:, t], advantage_B, 0.0)
    return advantages_BT
