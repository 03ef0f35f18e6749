# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
"""Every loss once more, as plainly as possible: what tests compare gradients with."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from tests.support.trainer import MILD
from torch import Tensor, nn

from warren_schemas.config import (
    CispoLoss,
    CrossEntropyLoss,
    DroLoss,
    GspoLoss,
    ImportanceSamplingLoss,
    KlPenalty,
    PpoLoss,
    SapoLoss,
)
from warren_schemas.token_batch import TokenBatch


def cross_entropy(logprob: Tensor, sampler: Tensor, weight: Tensor) -> Tensor:
    return -weight * logprob


def importance_sampling(logprob: Tensor, sampler: Tensor, weight: Tensor) -> Tensor:
    return -(logprob - sampler).exp() * weight


def ppo(logprob: Tensor, sampler: Tensor, weight: Tensor) -> Tensor:
    ratio = (logprob - sampler).exp()
    return -torch.min(ratio * weight, ratio.clamp(0.8, 1.28) * weight)


def cispo(logprob: Tensor, sampler: Tensor, weight: Tensor) -> Tensor:
    return -(logprob - sampler).exp().clamp(0.9, 2.0).detach() * weight * logprob


def sapo(logprob: Tensor, sampler: Tensor, weight: Tensor) -> Tensor:
    ratio = (logprob - sampler).exp()
    raised = 4 / 0.8 / (1 + (-0.8 * (ratio - 1)).exp())
    lowered = 4 / 1.5 / (1 + (-1.5 * (ratio - 1)).exp())
    return -weight * torch.where(weight > 0, raised, lowered)


def dro(logprob: Tensor, sampler: Tensor, weight: Tensor) -> Tensor:
    return -(weight * logprob - 0.5 * 0.3 * (logprob - sampler) ** 2)


TOKEN_LOSSES: list[object] = [
    pytest.param(CrossEntropyLoss(), cross_entropy, id="cross_entropy"),
    pytest.param(ImportanceSamplingLoss(), importance_sampling, id="importance_sampling"),
    pytest.param(PpoLoss(), ppo, id="ppo"),
    pytest.param(CispoLoss(clip_low=0.9, clip_high=2.0), cispo, id="cispo"),
    pytest.param(SapoLoss(tau_pos=0.8, tau_neg=1.5), sapo, id="sapo"),
    pytest.param(DroLoss(beta=0.3), dro, id="dro"),
]


class Row:
    """One sequence's masked tokens in float64, as a reference may use them."""

    def __init__(self, model: nn.Module, batch: TokenBatch, place: slice, base: nn.Module) -> None:
        ids_T = torch.tensor(batch.ids_N[place].astype(np.int64))
        self.mask_T = torch.tensor(batch.mask_N[place].astype(bool))[1:]
        self.sampler_T = self._masked(batch.logprobs_N[place])
        self.weights_T = self._masked(batch.weights_N[place])
        logprobs_TV = model(input_ids=ids_T[None]).logits[0].div(MILD).log_softmax(-1)[:-1]
        with torch.no_grad():
            base_TV = base(input_ids=ids_T[None]).logits[0].div(MILD).log_softmax(-1)[:-1]
        chosen = ids_T[1:, None]
        self.logprobs_T = logprobs_TV.gather(1, chosen)[:, 0][self.mask_T]
        self.base_T = base_TV.gather(1, chosen)[:, 0][self.mask_T]
        self.entropy_T = -(logprobs_TV.exp() * logprobs_TV).sum(-1)[self.mask_T]

    def _masked(self, values: "np.ndarray[tuple[int], np.dtype[np.float32]]") -> Tensor:
        return torch.tensor(values.astype(np.float64))[1:][self.mask_T]


RowLoss = Callable[[Row], Tensor]


def surrogate(row: Row, weights_T: Tensor) -> Tensor:
    ratio_T = (row.logprobs_T - row.sampler_T).exp()
    return -torch.min(ratio_T * weights_T, ratio_T.clamp(0.8, 1.28) * weights_T).sum()


def gspo(row: Row) -> Tensor:
    if row.logprobs_T.numel() == 0:
        return row.logprobs_T.sum()
    ratio = (row.logprobs_T - row.sampler_T).mean().exp()
    return -torch.min(ratio * row.weights_T, ratio.clamp(0.9, 1.2) * row.weights_T).sum()


def with_entropy(row: Row) -> Tensor:
    return surrogate(row, row.weights_T) - 0.3 * row.entropy_T.sum()


def with_kl(estimate: Callable[[Tensor], Tensor]) -> RowLoss:
    def loss(row: Row) -> Tensor:
        penalty = 0.7 * estimate(row.logprobs_T - row.base_T).sum()
        return surrogate(row, row.weights_T) + penalty

    return loss


def with_kl_in_the_reward(row: Row) -> Tensor:
    cost_T = (row.logprobs_T - row.base_T).detach()
    to_go = [float(cost_T[t:].sum()) for t in range(cost_T.numel())]
    return surrogate(row, row.weights_T - 0.7 * torch.tensor(to_go, dtype=torch.float64))


def with_truncation(row: Row) -> Tensor:
    """The surrogate at a ratio of 1 is the policy gradient."""
    weight_T = (row.logprobs_T - row.sampler_T).exp().clamp(max=1.2).detach()
    return -(weight_T * row.weights_T * (row.logprobs_T - row.logprobs_T.detach()).exp()).sum()


def dro_with_truncation(row: Row) -> Tensor:
    """The weight is the advantage's; what holds the policy near the sampler still does."""
    log_ratio_T = row.logprobs_T - row.sampler_T
    weight_T = log_ratio_T.exp().clamp(max=1.2).detach()
    gain_T = weight_T * row.weights_T * row.logprobs_T
    return -(gain_T - 0.5 * 0.3 * log_ratio_T**2).sum()


OBJECTIVES: list[object] = [
    pytest.param({"loss": GspoLoss(clip_low=0.9, clip_high=1.2)}, gspo, id="gspo"),
    pytest.param({"entropy_coefficient": 0.3}, with_entropy, id="entropy"),
    pytest.param(
        {"kl": KlPenalty(estimator="k2", coefficient=0.7)},
        with_kl(lambda d: d**2 / 2),
        id="kl_k2",
    ),
    pytest.param(
        {"kl": KlPenalty(coefficient=0.7)}, with_kl(lambda d: (-d).exp() - 1 + d), id="kl_k3"
    ),
    pytest.param(
        {"kl": KlPenalty(estimator="k1", place="reward", coefficient=0.7)},
        with_kl_in_the_reward,
        id="kl_reward",
    ),
    pytest.param({"tis_cap": 1.2}, with_truncation, id="tis"),
    pytest.param({"tis_cap": 1.2, "loss": DroLoss(beta=0.3)}, dro_with_truncation, id="tis_dro"),
]
