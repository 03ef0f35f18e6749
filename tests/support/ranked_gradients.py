# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
"""Gradients of a model on several ranks, and what they ought to be."""

import copy
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import (
    load_file,  # pyright: ignore[reportUnknownVariableType]
)
from tests.support.losses import Row, RowLoss
from tests.support.trainer import (
    MODEL,
    done,
    forward_backward,
    model_of,
    opened,
    optim_step,
    random_batch,
    sequences,
)
from tests.support.trainer_ranks import RankedTrainer
from torch import Tensor, nn

from warren_gpu_worker.trainer.child.engine import Engine
from warren_schemas.config import CrossEntropyLoss
from warren_schemas.ids import ModelId
from warren_schemas.token_batch import TokenBatch
from warren_schemas.training import KeepReference, LoadState, ModelSpec, OpBody, SaveState


@dataclass(frozen=True, slots=True)
class Start:
    """A model that has moved from its reference, and both of them in float64."""

    pair: RankedTrainer
    model: ModelId
    url: str
    plain: nn.Module
    base: nn.Module

    def gradient_on_two(self, op: OpBody) -> dict[str, Tensor]:
        """As the first rank saves it."""
        ops = [LoadState(url=self.url), op, SaveState(name="gradient")]
        saved = [done(self.pair.apply(self.model, number, op)) for number, op in enumerate(ops, 8)]
        tensors = load_file(Path(saved[-1].checkpoint_url or "") / "optimizer.safetensors")
        return {_plain_name(n): t for n, t in tensors.items() if n.endswith("/gradient")}

    def gradient_in_float64(self, batch: TokenBatch, loss_of: RowLoss) -> dict[str, Tensor]:
        self.plain.zero_grad()
        rows = [Row(self.plain, batch, place, self.base) for place in sequences(batch)]
        torch.stack([loss_of(row) for row in rows]).sum().backward()
        return {n: p.grad for n, p in self.plain.named_parameters() if p.grad is not None}


def _plain_name(name: str) -> str:
    """Of a checkpoint's tensor in the modules."""
    name = name.removesuffix("/gradient").removeprefix("base_model.model.")
    return name.replace("lora_A.", "lora_A.default.").replace("lora_B.", "lora_B.default.")


def moved(spec: ModelSpec, ranks: RankedTrainer, alone: Engine) -> Start:
    """A model that has moved from its reference; `alone` is an engine of one rank."""
    model = ModelId(f"model_{spec.update.kind}")
    nudge = forward_backward(random_batch(98), CrossEntropyLoss())
    ops: list[OpBody] = [nudge, optim_step(), KeepReference(), SaveState(name="kept")]
    ops += [nudge, optim_step(learning_rate=1e-2), SaveState(name="start")]
    opened(ranks, spec, model)
    saved = [done(ranks.apply(model, number, op)) for number, op in enumerate(ops, 1)]

    def double(number: int) -> nn.Module:
        url = saved[number - 1].checkpoint_url
        done(alone.open(MODEL, spec, checkpoint_url=url, next_op=1))
        return copy.deepcopy(model_of(alone).network.causal).double()

    return Start(ranks, model, saved[6].checkpoint_url or "", double(7), double(4))
