# pyright: reportUnknownMemberType=false
"""Weights as shards, one for each rank (FSDP2: Zhao et al. 2023, and torch's `fully_shard`).

Every layer is put together just before it computes and taken apart after it, forward and backward;
each rank is left with its own shard of the summed gradient. What lies outside of the layers
(embedding, final norm, head) stays together for a whole pass, as embedding and head may be the same
tensor.

Invariants:
- Between two passes each rank holds shards only, always in the same memory.
- Gradients are sums over ranks, as the loss is a sum over tokens.
- Whole tensors have the same names, shapes and bits whatever the number of ranks.
"""

from collections.abc import Mapping
from typing import cast

from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from warren_gpu_worker.trainer.training.gradient_checkpointing import layers_of
from warren_gpu_worker.trainer.training.ranks import Ranks


class Trunk(nn.Module):
    """A decoder as FSDP2 wants it: all weights of the model belong to the module that is called."""

    def __init__(self, causal: nn.Module, decoder: nn.Module) -> None:
        super().__init__()
        self.causal = causal
        self._call = decoder.__call__  # no submodule: it is one below `causal` already

    def forward(self, **inputs: object) -> object:
        return self._call(**inputs)

    def end_pass(self) -> None:
        """Take apart what stayed together for the head."""
        cast("FSDPModule", self).reshard()


def shard(causal: nn.Module, decoder: nn.Module, ranks: Ranks) -> Trunk:
    """Leave this rank its shard of every weight of `causal`; what to call instead of `decoder`.

    Parameters of the modules are other objects afterwards, on the rank's own device.
    """
    for layer in layers_of(decoder):
        fully_shard(layer, mesh=ranks.mesh)
    trunk = Trunk(causal, decoder)
    fully_shard(trunk, mesh=ranks.mesh, reshard_after_forward=False)
    for module in trunk.modules():
        if isinstance(module, FSDPModule):
            module.set_gradient_divide_factor(1.0)
            module.set_force_sum_reduction_for_comms(True)
    return trunk


def whole(tensor: Tensor) -> Tensor:
    """Shards of all ranks put together; all ranks must ask. Others are returned as they are."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def whole_on_first(tensors: Mapping[str, Tensor], ranks: Ranks) -> dict[str, Tensor]:
    """Whole tensors, for the first rank to write. The others must ask too, and get what they have."""
    found: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        full = whole(tensor)
        found[name] = full.cpu() if ranks.is_first and full is not tensor else tensor
    return found


def shard_like(tensor: Tensor, own: Tensor) -> Tensor:
    """This rank's shard of a whole tensor that every rank has, where `own` is a shard."""
    if not isinstance(own, DTensor):
        return tensor
    return distribute_tensor(
        tensor.to(own.device), own.device_mesh, own.placements, src_data_rank=None
    )
