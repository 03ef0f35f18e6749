"""Every loss that a config can name is compared with a reference, and begins as the policy gradient."""

from typing import cast, get_args

import pytest
import torch
from tests.support.losses import OBJECTIVES, TOKEN_LOSSES

from warren_gateway.coordinator.learning.batch_metrics import TRAINER_TAGS
from warren_gpu_worker.losses.objective import Objective, compute_objective
from warren_gpu_worker.losses.tensors import TokenTensors
from warren_gpu_worker.trainer.training.metrics import report
from warren_schemas.config import (
    CrossEntropyLoss,
    DroLoss,
    GspoLoss,
    Loss,
    PolicyLoss,
)
from warren_schemas.metrics.registry import find


def kinds_of(union: object) -> set[type[object]]:
    return set(get_args(get_args(union)[0]))


POLICY_LOSSES = sorted(kinds_of(PolicyLoss) - {DroLoss, GspoLoss}, key=lambda kind: kind.__name__)
"""Those with a ratio of each token. DRO has none, and GSPO one for all tokens of a sequence."""


def test_every_loss_has_a_reference() -> None:
    by_token = {type(case.values[0]) for case in cast("list[pytest.ParameterSet]", TOKEN_LOSSES)}
    options = [case.values[0] for case in cast("list[pytest.ParameterSet]", OBJECTIVES)]
    whole = {
        type(given["loss"]) for given in cast("list[dict[str, object]]", options) if "loss" in given
    }
    assert kinds_of(Loss) == kinds_of(PolicyLoss) | {CrossEntropyLoss}
    assert kinds_of(Loss) <= by_token | whole, "add a reference to tests/support/losses.py"


@pytest.mark.parametrize("kind", POLICY_LOSSES)
@pytest.mark.parametrize("tis_cap", [None, 1.2])
def test_at_a_ratio_of_1_the_gradient_is_the_policy_gradient(
    kind: type[PolicyLoss], tis_cap: float | None
) -> None:
    """`tis_cap` leaves ratios of 1 to the loss, whatever the sampler's were, and weights the tokens."""
    sampler_BT = torch.tensor([[-1.0, -2.0, -0.5]], dtype=torch.float64)
    distance_BT = torch.tensor([[0.1, 0.5, -0.4]], dtype=torch.float64)
    logprobs_BT = sampler_BT if tis_cap is None else sampler_BT + distance_BT
    logprobs_BT = logprobs_BT.clone().requires_grad_()
    advantages_BT = torch.tensor([[1.0, -2.0, 0.5]], dtype=torch.float64)
    tokens = TokenTensors(
        logprobs_BT, sampler_BT, advantages_BT, torch.tensor([[True, True, True]])
    )

    value = compute_objective(tokens, Objective(kind(), tis_cap=tis_cap), entropy=torch.zeros(()))

    (gradient_BT,) = torch.autograd.grad(value.loss, logprobs_BT)
    weights_BT = torch.ones(1, 3) if tis_cap is None else distance_BT.exp().clamp(max=tis_cap)
    torch.testing.assert_close(gradient_BT, -weights_BT.double() * advantages_BT)


@pytest.mark.parametrize("kind", [*POLICY_LOSSES, DroLoss, GspoLoss])
def test_every_diagnostic_of_a_loss_is_shown_under_a_tag_that_is_listed(
    kind: type[PolicyLoss],
) -> None:
    one_BT = torch.ones(1, 1)
    tokens = TokenTensors(-one_BT, -one_BT, one_BT, one_BT.bool())
    value = compute_objective(tokens, Objective(kind()), entropy=torch.zeros(()))
    sums = {name: float(each) for name, each in value.diagnostics.items()}
    told = report({"tokens:sum": 1.0, "loss:sum": float(value.loss), **sums})
    assert set(told) <= set(TRAINER_TAGS), "add it to TRAINER_TAGS"
    assert all(find(TRAINER_TAGS[name]) for name in told), "add it to warren_schemas.metrics"
