"""Unclipped importance-weighted policy gradient."""

from warren_gpu_worker.losses.ratio import masked_ratio
from warren_gpu_worker.losses.tensors import LossValue, TokenTensors


def importance_sampling(tokens: TokenTensors) -> LossValue:
    """L = -Σ r A   with r = p_trainer / p_sampler

    Tinker's `importance_sampling`; the surrogate of Kakade and Langford 2002 by token.
    """
    ratio = masked_ratio(tokens)
    return LossValue(-(ratio.ratio_BT * ratio.weights_BT).sum(), {})
