# pyright: reportUnknownMemberType=false
"""One decoder for several LoRA models on the same base: every row goes through its own adapter.

The base's product is computed once for all rows; the adapters lie stacked, so that all of them take
two batched products instead of two for each (as Punica, Chen et al. 2023, does for inference).

Legend: S models, R rows of each, B = S·R rows in the order of the models, T positions, I and O
features in and out, K rank.

Invariants: no row sees another row or another model's adapter; gradients reach the models' own
parameters; outside of `adapted_by` the decoder belongs to nobody and keeps nobody's tensors.
"""

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast

import torch
from peft.tuners.lora import Linear as LoraLinear
from peft.tuners.lora import LoraLayer
from torch import Tensor, nn
from transformers import PreTrainedModel

from warren_gpu_worker.trainer.training.trainable_model import TrainableModel, share

_ADAPTER = "default"


@dataclass(frozen=True, slots=True)
class Shape:
    """What models must have in common: the decoder's modules with an adapter, and their ranks."""

    ranks: tuple[tuple[str, int], ...]


def shape_of(model: TrainableModel) -> Shape | None:
    """None for a model that can't share: it has an adapter on something else than a linear map."""
    ranks: list[tuple[str, int]] = []
    for name, layer in _adapters(model):
        if type(layer) is not LoraLinear:
            return None
        ranks.append((name, cast("int", layer.r[_ADAPTER])))
    return Shape(tuple(ranks)) if ranks else None


class StackedDecoder:
    def __init__(self, base: PreTrainedModel, shape: Shape) -> None:
        self.module = cast("nn.Module", share(base).get_decoder())
        self._layers: dict[str, _StackedLinear] = {}
        for name, _ in shape.ranks:
            layer = _StackedLinear(self.module.get_submodule(name))
            self._layers[name] = layer
            self.module.set_submodule(name, layer)

    @contextmanager
    def adapted_by(self, models: Sequence[TrainableModel]) -> Generator[None]:
        """Row s·R + r belongs to model s, until the context ends; that is after the backward pass."""
        by_name = [dict(_adapters(model)) for model in models]
        try:
            for name, layer in self._layers.items():
                layer.stack([cast("LoraLinear", adapters[name]) for adapters in by_name])
            yield
        finally:
            for layer in self._layers.values():
                layer.stacks = None

    def hidden_BTH(self, input_ids_BT: Tensor) -> Tensor:
        """Hidden states before the head; rows are padded to the right."""
        output = self.module(input_ids=input_ids_BT, use_cache=False)
        return cast("Tensor", output.last_hidden_state)


@dataclass(frozen=True, slots=True)
class _Stacks:
    down_SIK: Tensor
    up_SKO: Tensor
    scale_S: Tensor


class _StackedLinear(nn.Module):
    """y = W x + (alpha / K) B A x, with A and B of the row's model (Hu et al. 2021, equation 3)."""

    def __init__(self, linear: nn.Module) -> None:
        super().__init__()
        self.linear = linear
        self.stacks: _Stacks | None = None

    def stack(self, layers: Sequence[LoraLinear]) -> None:
        downs = [cast("nn.Linear", layer.lora_A[_ADAPTER]).weight.T for layer in layers]
        ups = [cast("nn.Linear", layer.lora_B[_ADAPTER]).weight.T for layer in layers]
        scales = [cast("float", layer.scaling[_ADAPTER]) for layer in layers]
        self.stacks = _Stacks(torch.stack(downs), torch.stack(ups), ups[0].new_tensor(scales))

    def forward(self, x_BTI: Tensor) -> Tensor:
        stacks = cast("_Stacks", self.stacks)
        y_BTO = cast("Tensor", self.linear(x_BTI))
        n_models = stacks.scale_S.numel()
        x_SNI = x_BTI.reshape(n_models, -1, x_BTI.shape[-1]).to(stacks.down_SIK.dtype)
        delta_SNO = (x_SNI @ stacks.down_SIK) @ stacks.up_SKO * stacks.scale_S[:, None, None]
        return (y_BTO + delta_SNO.view(y_BTO.shape)).to(y_BTO.dtype)


def _adapters(model: TrainableModel) -> list[tuple[str, LoraLayer]]:
    """The decoder's modules with an adapter, by name; an adapted head stays with its model."""
    modules = cast("Iterable[tuple[str, nn.Module]]", model.network.decoder.named_modules())
    return [(name, module) for name, module in modules if isinstance(module, LoraLayer)]
