"""Weighted negative log-likelihood: supervised learning."""

import torch

from warren_gpu_worker.losses.tensors import LossValue, TokenTensors


def cross_entropy(tokens: TokenTensors) -> LossValue:
    """L = -Σ w log p

    Tinker's `cross_entropy`. The sampler's logprobs are ignored.
    """
    logprobs_BT = torch.where(tokens.mask_BT, tokens.logprobs_BT, 0.0)
    weights_BT = torch.where(tokens.mask_BT, tokens.weights_BT, 0.0)
    loss = -(weights_BT * logprobs_BT).sum()
    return LossValue(loss, {"nll:sum": -logprobs_BT.detach().sum()})
