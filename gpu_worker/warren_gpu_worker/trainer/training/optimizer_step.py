# pyright: reportUnknownMemberType=false
"""optim_step: AdamW with the gradient added up so far (Loshchilov and Hutter 2019)."""

import torch

from warren_gpu_worker.trainer.errors import OpError
from warren_gpu_worker.trainer.training.sharding import whole
from warren_gpu_worker.trainer.training.trainable_model import TrainableModel
from warren_schemas.training import OpDone, OptimStep


def optimizer_step(model: TrainableModel, op: OptimStep) -> OpDone:
    """Update the weights, begin a new window, raise the version.

    Raises `OpError` when there is no sound gradient; the caller then drops what there is.
    """
    if model.window_failure is not None:
        raise OpError(
            "a forward_backward since the last optim_step failed, so its gradient was dropped:"
            f" {model.window_failure}"
        )
    if model.n_backward == 0:
        raise OpError("there is no gradient: no forward_backward since the last optim_step")
    grad_norm = _clip(model, op.clip_norm)
    _configure(model.optimizer, op)
    model.optimizer.step()
    model.drop_gradient()
    model.version += 1
    metrics = {"grad_norm": grad_norm, "learning_rate": op.learning_rate}
    return OpDone(version=model.version, metrics=metrics)


def _clip(model: TrainableModel, clip_norm: float) -> float:
    """Scale the gradient down to `clip_norm` (0 is off); its norm before that."""
    parameters = list(model.parameters.values())
    gradients = [p.grad for p in parameters if p.grad is not None]
    norm = whole(torch.nn.utils.get_total_norm(gradients))
    grad_norm = norm.item()
    if not torch.isfinite(norm):
        raise OpError(f"the gradient's norm is {grad_norm}; lower the learning rate")
    if 0 < clip_norm < grad_norm:
        torch.nn.utils.clip_grads_with_norm_(parameters, clip_norm, norm)
    return grad_norm


def _configure(optimizer: torch.optim.AdamW, op: OptimStep) -> None:
    for group in optimizer.param_groups:
        group["lr"] = op.learning_rate
        group["betas"] = (op.beta1, op.beta2)
        group["eps"] = op.eps
        group["weight_decay"] = op.weight_decay
