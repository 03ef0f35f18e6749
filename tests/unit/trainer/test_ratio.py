"""What the ratio says about how far apart trainer and sampler are."""

import torch

from warren_gpu_worker.losses.ratio import ratio_diagnostics
from warren_gpu_worker.losses.tensors import TokenTensors
from warren_gpu_worker.trainer.training.metrics import merge, report


def test_the_divergence_of_what_is_almost_alike_is_not_rounded_below_zero() -> None:
    logprobs_BT = -torch.linspace(0.1, 3.0, 1000)[None]
    off_BT = torch.full_like(logprobs_BT, 3e-7)
    tokens = TokenTensors(
        logprobs_BT=logprobs_BT + off_BT,
        sampler_logprobs_BT=logprobs_BT,
        weights_BT=torch.ones_like(logprobs_BT),
        mask_BT=torch.ones_like(logprobs_BT, dtype=torch.bool),
    )
    off_M = (tokens.logprobs_BT - tokens.sampler_logprobs_BT)[0].double()
    found = ratio_diagnostics(tokens)["kl_k3:sum"]
    assert found > 0.0
    torch.testing.assert_close(found, (off_M.square() / 2).sum(), rtol=1e-3, atol=0.0)


def test_tokens_that_the_trainer_holds_to_be_impossible_have_no_effective_samples() -> None:
    """Their ratios underflow to 0 all together after an update that went too far."""
    sampler_BT = torch.zeros(1, 3)
    tokens = TokenTensors(
        sampler_BT - 1e4, sampler_BT, torch.ones(1, 3), torch.ones(1, 3, dtype=torch.bool)
    )
    merged = merge([{"tokens:sum": torch.tensor(3.0), **ratio_diagnostics(tokens)}])
    metrics = report(merged)
    assert metrics["ratio:mean"] == metrics["ess:mean"] == 0.0
