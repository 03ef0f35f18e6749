# pyright: reportUnknownMemberType=false
"""The critic: a linear map from a hidden state to the rewards that are still to come.

It stands on the policy's trunk, which its loss trains as well (PPO with shared parameters, Schulman
et al. 2017, equation 9). It begins at zero, so the first advantages are those of the rewards alone.

Invariants: the critic is trained and saved with the model, and is no part of a policy that is
published; advantages carry no gradient.

Legend: B rows, T positions, M trained tokens, H hidden size.
"""

from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from warren_gpu_worker.losses.gae import Floats, generalized_advantages
from warren_gpu_worker.trainer.training.micro_batches import MicroBatch
from warren_schemas.training import CriticTerm

CRITIC = "critic"
"""The module's name, below which its parameters are."""


@dataclass(frozen=True, slots=True)
class CriticOutput:
    """What the critic makes of the trained tokens of some rows."""

    advantages_BT: Tensor
    """Scaled as the op asks; 0 outside the mask."""
    loss: Tensor
    diagnostics: dict[str, Tensor]


def attach_critic(causal: nn.Module, hidden_size: int, device: torch.device) -> nn.Module:
    """Give the model a critic, in float32; bring it to the device."""
    critic = nn.Linear(hidden_size, 1, device=device, dtype=torch.float32)
    nn.init.zeros_(critic.weight)
    nn.init.zeros_(critic.bias)
    causal.add_module(CRITIC, critic)
    return critic


def is_critic(name: str) -> bool:
    """Whether a parameter is the critic's, by its name."""
    return name.startswith(f"{CRITIC}.")


def values_at(critic: nn.Module, hidden_BTH: Tensor, places_M: Tensor) -> Tensor:
    """V of the states in which the tokens at these places were chosen; float32 [M]."""
    hidden_MH = hidden_BTH.flatten(0, 1).index_select(0, places_M)
    return cast("Tensor", critic(hidden_MH.float()))[:, 0]


def judge(values_M: Tensor, rows: MicroBatch, term: CriticTerm) -> CriticOutput:
    """Advantages by the values as they are, and Σ (V - R)² / 2 with R = A + V.

    Where the error is beyond `value_clip` c the loss goes on as c (|error| - c / 2).
    """
    advantages_M = _advantages(values_M, rows, term)
    returns_M = advantages_M + values_M.detach()
    clip = term.value_clip
    error = (
        functional.mse_loss(values_M, returns_M, reduction="sum") / 2
        if clip is None
        else functional.huber_loss(values_M, returns_M, reduction="sum", delta=clip)
    )
    zeros = values_M.new_zeros(rows.mask_BT.numel())
    scaled_BT = zeros.scatter(0, rows.trained_M, advantages_M * term.advantage_scale)
    return CriticOutput(
        scaled_BT.view(rows.mask_BT.shape),
        term.value_coefficient * error,
        {
            "value:sum": values_M.detach().sum(),
            "return:sum": returns_M.sum(),
            "value_error:sum": advantages_M.square().sum(),
        },
    )


def _advantages(values_M: Tensor, rows: MicroBatch, term: CriticTerm) -> Tensor:
    mask_BT = rows.mask_BT.cpu().numpy()
    values_BT: Floats = np.zeros(mask_BT.shape)
    values_BT[mask_BT] = values_M.detach().cpu().numpy()
    rewards_BT = rows.weights_BT.cpu().numpy().astype(np.float64)
    advantages_BT = generalized_advantages(
        rewards_BT, values_BT, mask_BT, gamma=term.gamma, gae_lambda=term.gae_lambda
    )
    return torch.from_numpy(advantages_BT[mask_BT]).to(values_M)
