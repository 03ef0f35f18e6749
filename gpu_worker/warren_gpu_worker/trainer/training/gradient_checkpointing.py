# pyright: reportUnknownMemberType=false
"""Gradient checkpointing (Chen et al. 2016): layers forget their activations and compute them again.

transformers does so in training mode only, which would switch dropout on as well; so the layers are
wrapped here. What is computed again has the same bits, and so has the gradient.
"""

from functools import partial

from torch import nn
from torch.utils.checkpoint import (
    checkpoint,  # pyright: ignore[reportUnknownVariableType]
)
from transformers.modeling_layers import GradientCheckpointingLayer


def layers_of(decoder: nn.Module) -> list[nn.Module]:
    """The repeated layers of a decoder; empty where they are not of transformers' kind."""
    return [m for m in decoder.modules() if isinstance(m, GradientCheckpointingLayer)]


class NoLayers(ValueError):
    """The model has no layers that can be computed again."""


def checkpoint_activations(decoder: nn.Module) -> None:
    """Let every layer of the decoder keep its input only. Raises `NoLayers`."""
    layers = layers_of(decoder)
    if not layers:
        raise NoLayers(
            f"activations of {type(decoder).__name__} can't be checkpointed: it has no layers of"
            " transformers' kind; start the GPU worker without --checkpoint-activations"
        )
    for layer in layers:
        layer.forward = partial(
            checkpoint, layer.forward, use_reentrant=False, preserve_rng_state=False
        )
