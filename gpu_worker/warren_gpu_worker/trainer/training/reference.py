# pyright: reportUnknownMemberType=false
"""The reference policy: what KL penalties compare with.

It is a copy of the trained weights, made by keep_reference and saved with every checkpoint. A LoRA
model without one is compared with its base, which is the adapter switched off.

Invariant: outside of `reference_weights` the model's own weights are in place.
"""

from collections.abc import Generator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor

from warren_gpu_worker.trainer.errors import OpError
from warren_gpu_worker.trainer.training.trainable_model import TrainableModel
from warren_schemas.training import OpDone, is_full


def keep_reference(model: TrainableModel) -> OpDone:
    """Copy the weights as they are."""
    model.reference = {name: p.detach().clone() for name, p in model.policy_parameters.items()}
    return OpDone(version=model.version)


def check_reference(model: TrainableModel) -> None:
    """Raise `OpError` when there is nothing to compare with."""
    if model.reference is None and is_full(model.spec):
        raise OpError(
            "there is no reference for the KL penalty: send keep_reference before the first op"
            " that has one"
        )


@contextmanager
def reference_weights(model: TrainableModel) -> Generator[None]:
    """The network computes with the reference's weights, and without gradients.

    No graph of the model may be alive: its weights are exchanged beneath it.
    """
    is_sharded = model.network.ranks.size > 1
    own = {n: p.data.clone() if is_sharded else p.data for n, p in model.policy_parameters.items()}
    # All of an adapter at zero adds exactly zero.
    reference = model.reference or {name: torch.zeros_like(data) for name, data in own.items()}
    try:
        _put(model, reference)
        with torch.no_grad():
            yield
    finally:
        _put(model, own)


def _put(model: TrainableModel, weights: Mapping[str, Tensor]) -> None:
    for name, parameter in model.policy_parameters.items():
        if isinstance(parameter.data, DTensor):
            parameter.data.copy_(weights[name])  # FSDP2 knows the memory and not the parameter
        else:
            parameter.data = weights[name]
