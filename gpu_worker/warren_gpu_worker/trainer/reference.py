# pyright: reportUnknownMemberType=false
"""The reference policy: what KL penalties compare with.

It is a copy of the trained weights, made by keep_reference and saved with every checkpoint. A LoRA
model without one is compared with its base, which is the adapter switched off.

Invariant: outside of `reference_weights` the model's own weights are in place.
"""

from collections.abc import Generator
from contextlib import contextmanager

import torch

from warren_gpu_worker.trainer.errors import OpError
from warren_gpu_worker.trainer.model import TrainableModel
from warren_schemas.training import OpDone, is_full


def keep_reference(model: TrainableModel) -> OpDone:
    """Copy the weights as they are."""
    model.reference = {name: p.detach().clone() for name, p in model.parameters.items()}
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
    own = {name: parameter.data for name, parameter in model.parameters.items()}
    # All of an adapter at zero adds exactly zero.
    reference = model.reference or {name: torch.zeros_like(data) for name, data in own.items()}
    try:
        for name, parameter in model.parameters.items():
            parameter.data = reference[name]
        with torch.no_grad():
            yield
    finally:
        for name, parameter in model.parameters.items():
            parameter.data = own[name]
