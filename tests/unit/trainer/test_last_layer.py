"""The last feed-forward is computed where somebody asked for it, and nothing else is different."""

from pathlib import Path
from typing import cast

import numpy as np
import pytest
import torch
from tests.support.trainer import (
    FULL,
    LORA,
    MODEL,
    apply_all,
    done,
    engine_for,
    forward_backward,
    model_of,
    opened,
    optim_step,
    random_batch,
    relative_error,
)
from torch import Tensor, nn
from transformers.modeling_layers import GradientCheckpointingLayer

from warren_gpu_worker.trainer.training.last_layer import narrow
from warren_schemas.config import CrossEntropyLoss
from warren_schemas.token_batch import TokenBatch
from warren_schemas.training import ModelSpec


def prompts_and_answers() -> TokenBatch:
    """Sequences of which the last third is trained on."""
    lengths = (12, 30, 21)
    batch = random_batch(1, lengths)
    masks = [np.arange(n) >= 2 * n // 3 for n in lengths]
    return batch.model_copy(update={"mask_N": np.concatenate(masks).astype(np.uint8)})


@pytest.mark.parametrize("spec", [pytest.param(FULL, id="full"), pytest.param(LORA, id="lora")])
def test_the_gradient_is_that_of_the_whole_layer(
    base_folder: Path, tmp_path: Path, spec: ModelSpec
) -> None:
    found: list[dict[str, Tensor]] = []
    rows_seen: list[int] = []
    for is_possible in (False, True):
        engine = opened(engine_for(base_folder, tmp_path), spec)
        model = model_of(engine)
        model.network.narrowing.is_possible = is_possible
        down = model.network.decoder.get_submodule("layers.1.mlp.down_proj")
        hook = down.register_forward_hook(
            lambda _module, inputs, _output: rows_seen.append(inputs[0].shape[:-1].numel())
        )
        apply_all(engine, [forward_backward(random_batch(9), CrossEntropyLoss()), optim_step()])
        rows_seen.clear()
        done(engine.apply(MODEL, 3, forward_backward(prompts_and_answers())))
        hook.remove()
        n_positions, n_trained = 11 + 29 + 20, 4 + 10 + 7
        assert rows_seen == [n_trained if is_possible else n_positions]
        found.append({n: p.grad for n, p in model.parameters.items() if p.grad is not None})
    assert relative_error(found[1], {n: g.double() for n, g in found[0].items()}) <= 1e-6


class Layer(GradientCheckpointingLayer):
    def __init__(self, mlp: nn.Module) -> None:
        super().__init__()
        self.mlp = mlp

    def forward(self, x_BTH: Tensor) -> Tensor:
        y_BTH = cast("Tensor | tuple[Tensor, Tensor]", self.mlp(x_BTH))
        return x_BTH + (y_BTH[0] if isinstance(y_BTH, tuple) else y_BTH)


class Several(nn.Module):
    """As some mixtures of experts answer."""

    def forward(self, x_BTH: Tensor) -> tuple[Tensor, Tensor]:
        return 2 * x_BTH, x_BTH


class Mixing(nn.Module):
    """Looks at other positions, as no feed-forward should."""

    def forward(self, x_BTH: Tensor) -> Tensor:
        return x_BTH.cumsum(1)


@pytest.mark.parametrize(
    ("mlp", "is_possible"), [(nn.Tanh(), True), (Several(), False), (Mixing(), False)]
)
def test_what_does_not_fit_the_picture_is_called_as_it_is(
    mlp: nn.Module, is_possible: bool
) -> None:
    decoder = nn.Sequential(nn.Embedding(4, 3), Layer(mlp))
    ids_BT = torch.arange(4)[None]
    expected_BTH = decoder(ids_BT)
    narrowing = narrow(decoder, decoder, ids_BT)
    assert narrowing.is_possible == is_possible
    narrowing.ask(torch.tensor([1, 3]), 4)
    found_BTH = decoder(ids_BT)
    assert torch.equal(found_BTH[0, [1, 3]], expected_BTH[0, [1, 3]])
    assert torch.equal(found_BTH, expected_BTH) != is_possible
