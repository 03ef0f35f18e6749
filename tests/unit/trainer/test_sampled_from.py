# pyright: reportUnknownMemberType=false
"""Gradients of truncated and penalized distributions against a plain float64 implementation."""

import copy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.support.trainer import (
    MILD,
    MODEL,
    SPECS,
    VOCABULARY,
    done,
    engine_for,
    failed,
    forward_backward,
    gradient_of,
    model_of,
    opened,
    optim_step,
    random_batch,
    relative_error,
    sampled_batch,
    sequences,
)
from torch import Tensor, nn

from warren_gpu_worker.trainer.child.engine import Engine
from warren_schemas.config import CrossEntropyLoss, ImportanceSamplingLoss
from warren_schemas.sampling_mask import SamplingMask
from warren_schemas.token_batch import TokenBatch
from warren_schemas.training import ForwardBackward, ModelSpec

PENALTY = 1.4
ENTROPY = 0.3
LENGTHS = (5, 12, 3, 9, 2, 12)


def masked(batch: TokenBatch, seed: int) -> TokenBatch:
    """Every token that counts has a set of its own, with itself in it."""
    rng = np.random.default_rng(seed)
    sets = [
        rng.permutation(np.union1d([token], rng.choice(VOCABULARY, rng.integers(1, 9)))).astype(
            np.int32
        )
        if counts
        else np.zeros(0, np.int32)
        for token, counts in zip(batch.ids_N, batch.mask_N, strict=True)
    ]
    return batch.model_copy(update={"sampling_mask": SamplingMask.of(sets)})


def stirred(engine: Engine) -> Engine:
    done(engine.apply(MODEL, 1, forward_backward(random_batch(99), CrossEntropyLoss())))
    done(engine.apply(MODEL, 2, optim_step()))
    return engine


def op_of(batch: TokenBatch) -> ForwardBackward:
    return ForwardBackward(
        loss=ImportanceSamplingLoss(),
        batch=batch,
        temperature=MILD,
        repetition_penalty=PENALTY,
        entropy_coefficient=ENTROPY,
        return_logprobs=True,
    )


def plain_gradient(model: nn.Module, batch: TokenBatch) -> tuple[dict[str, Tensor], list[float]]:
    """Also the entropies, which are of all tokens."""
    double = copy.deepcopy(model).double()
    double.zero_grad()
    mask, loss, entropies = batch.sampling_mask, torch.zeros((), dtype=torch.float64), list[float]()
    assert mask is not None
    for place in sequences(batch):
        ids = [int(i) for i in batch.ids_N[place]]
        logits_TV = double(input_ids=torch.tensor([ids])).logits[0]
        for t in range(1, len(ids)):
            n = place.start + t
            if not batch.mask_N[n]:
                continue
            factors_V = torch.ones(VOCABULARY, dtype=torch.float64)
            for seen in set(ids[:t]):
                factors_V[seen] = PENALTY if logits_TV[t - 1, seen] < 0 else 1 / PENALTY
            left = mask.ids_S[mask.starts_N[n] : mask.starts_N[n] + mask.sizes_N[n]].tolist()
            shaped_V = logits_TV[t - 1] * factors_V / MILD
            logprobs_K, logprobs_V = shaped_V[left].log_softmax(0), shaped_V.log_softmax(0)
            ratio = (logprobs_K[left.index(ids[t])] - float(batch.logprobs_N[n])).exp()
            entropy = -(logprobs_V.exp() * logprobs_V).sum()
            loss = loss - ratio * float(batch.weights_N[n]) - ENTROPY * entropy
            entropies.append(float(entropy.detach()))
    loss.backward()
    return {n: p.grad for n, p in double.named_parameters() if p.grad is not None}, entropies


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("budget", [1, 20, 10_000])
@pytest.mark.parametrize("max_logits", [7 * VOCABULARY, 1 << 20])
def test_gradient_equals_the_float64_reference(
    base_folder: Path, tmp_path: Path, spec: ModelSpec, budget: int, max_logits: int
) -> None:
    engine = stirred(opened(engine_for(base_folder, tmp_path, micro_batch_tokens=budget), spec))
    model = model_of(engine)
    batch = masked(sampled_batch(model.network.causal, 1, LENGTHS, MILD), 2)
    expected, entropies = plain_gradient(model.network.causal, batch)
    model.network = replace(model.network, max_logits=max_logits)
    told = done(engine.apply(MODEL, 3, op_of(batch)))
    assert relative_error(gradient_of(engine), expected) <= 1e-6
    assert told.metrics["entropy:mean"] == pytest.approx(np.mean(entropies), rel=1e-5)


def test_entropy_draws_a_token_back_that_was_left_alone(base_folder: Path, tmp_path: Path) -> None:
    """Its probability is 1 whatever the weights, so nothing else can move it."""
    engine = stirred(opened(engine_for(base_folder, tmp_path), SPECS[0].values[0]))  # type: ignore[arg-type]
    batch = sampled_batch(model_of(engine).network.causal, 1, LENGTHS, MILD)
    alone = SamplingMask.of([batch.ids_N[n : n + counts] for n, counts in enumerate(batch.mask_N)])
    certain_N = np.zeros_like(batch.logprobs_N)
    batch = batch.model_copy(update={"sampling_mask": alone, "logprobs_N": certain_N})
    sizes: list[float] = []
    for coefficient in (0.0, ENTROPY):
        op = op_of(batch).model_copy(update={"entropy_coefficient": coefficient})
        told = done(engine.apply(MODEL, 3 + len(sizes), op))
        assert told.metrics["ratio:mean"] == 1.0
        assert told.metrics["entropy:mean"] > 1.0
        sizes.append(sum(float(g.abs().sum()) for g in gradient_of(engine).values()))
    assert sizes[0] == 0.0 < sizes[1]


def test_a_mask_with_ids_outside_the_vocabulary_is_refused(
    base_folder: Path, tmp_path: Path
) -> None:
    batch = TokenBatch.model_validate(
        {
            "ids_N": [3, 4], "lengths_B": [2], "mask_N": [0, 1], "logprobs_N": [0.0, -1.0],
            "weights_N": [0.0, 1.0], "sampling_mask": {"sizes_N": [0, 2], "ids_S": [4, VOCABULARY]},
        }
    )  # fmt: skip
    engine = opened(engine_for(base_folder, tmp_path), SPECS[0].values[0])  # type: ignore[arg-type]
    assert "token id 56 is outside" in failed(engine.apply(MODEL, 1, forward_backward(batch)))
