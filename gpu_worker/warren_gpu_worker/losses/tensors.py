"""The inputs of every loss, and what it returns."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True)
class TokenTensors:
    """The tokens of a padded batch, as every loss takes them."""

    logprobs_BT: Tensor
    """The trainer's; carries the gradient."""
    sampler_logprobs_BT: Tensor
    weights_BT: Tensor
    """Advantages of a policy loss, weights of cross-entropy."""
    mask_BT: Tensor
    """bool: which tokens count."""


@dataclass(frozen=True, slots=True)
class LossValue:
    loss: Tensor
    """Scalar, with its gradient."""
    diagnostics: dict[str, Tensor]
    """Detached scalars by `name:sum` or `name:max`, to be merged over micro-batches that way."""
