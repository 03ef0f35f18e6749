"""What the ratio says about how far apart trainer and sampler are."""

import torch

from warren_gpu_worker.losses.ratio import ratio_diagnostics
from warren_gpu_worker.losses.value import TokenTensors


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
