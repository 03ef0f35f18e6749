"""Policy gradient with a clipped importance weight."""

from warren_gpu_worker.losses.ratio import masked_ratio
from warren_gpu_worker.losses.tensors import LossValue, TokenTensors


def cispo(tokens: TokenTensors, clip_low: float, clip_high: float) -> LossValue:
    """L = -Σ sg(clamp(r, low, high)) A log p   with r = p_trainer / p_sampler

    MiniMax-M1 2025, equation 4. sg stops the gradient: the weight is bounded, and every token keeps
    its gradient, which a clipped surrogate takes away.
    """
    ratio = masked_ratio(tokens)
    ratio_BT = ratio.ratio_BT.detach()
    clipped_BT = ratio_BT.clamp(clip_low, clip_high)
    loss = -(clipped_BT * ratio.weights_BT * ratio.logprobs_BT).sum()
    return LossValue(loss, {"clip_frac:sum": (clipped_BT != ratio_BT).sum()})
