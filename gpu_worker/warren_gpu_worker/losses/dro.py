"""Policy gradient with a quadratic penalty on the log-ratio."""

from warren_gpu_worker.losses.ratio import masked_ratio
from warren_gpu_worker.losses.tensors import LossValue, TokenTensors


def dro(tokens: TokenTensors, beta: float) -> LossValue:
    """L = -Σ (A log p - β/2 (log r)²)   with r = p_trainer / p_sampler

    Direct reward optimization, Richemond et al. 2024, in the form of Tinker's `dro`: the advantage
    stands where the paper has reward minus value.

    The penalty is no part of the weights, so it is not normalized with them: β is per token of the
    sum. Whoever divides the advantages divides β as well.
    """
    ratio = masked_ratio(tokens)
    penalty_BT = 0.5 * beta * ratio.log_ratio_BT.square()
    return LossValue(-(ratio.weights_BT * ratio.logprobs_BT - penalty_BT).sum(), {})
