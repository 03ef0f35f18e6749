# pyright: reportUnknownMemberType=false
"""Gradients of truncated and penalized distributions against a plain float64 implementation."""

import copy
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.support.trainer import (
    FULL,
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
from warren_schemas.config import CrossEntropyLoss, ImportanceSamplingLoss, KlPenalty
from warren_schemas.sampling_mask import SamplingMask
from warren_schemas.token_batch import TokenBatch
from warren_schemas.training import ForwardBackward, KeepReference, ModelSpec

PENALTY = 1.4
ENTROPY = 0.3
KL = 0.7
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
    """What it was before is kept as the reference."""
    done(engine.apply(MODEL, 1, KeepReference()))
    done(engine.apply(MODEL, 2, forward_backward(random_batch(99), CrossEntropyLoss())))
    done(engine.apply(MODEL, 3, optim_step(learning_rate=1e-2)))
    return engine


def op_of(batch: TokenBatch) -> ForwardBackward:
    return ForwardBackward(
        loss=ImportanceSamplingLoss(),
        batch=batch,
        temperature=MILD,
        repetition_penalty=PENALTY,
        entropy_coefficient=ENTROPY,
        kl=KlPenalty(coefficient=KL),
        return_logprobs=True,
    )


@dataclass
class Plain:
    """The bonus is of what was left; the penalty, and the entropies that are told, are of all tokens."""

    gradient: dict[str, Tensor]
    entropies: list[float]
    estimates: list[float]


def plain(model: nn.Module, base: nn.Module, batch: TokenBatch) -> Plain:
    double, base = copy.deepcopy(model).double(), base.double()
    double.zero_grad()
    mask, loss = batch.sampling_mask, torch.zeros((), dtype=torch.float64)
    entropies, estimates = list[float](), list[float]()
    assert mask is not None
    for place in sequences(batch):
        ids = [int(i) for i in batch.ids_N[place]]
        logits_TV = double(input_ids=torch.tensor([ids])).logits[0]
        with torch.no_grad():
            base_TV = base(input_ids=torch.tensor([ids])).logits[0]
        for t in range(1, len(ids)):
            n = place.start + t
            if not batch.mask_N[n]:
                continue
            left = mask.ids_S[mask.starts_N[n] : mask.starts_N[n] + mask.sizes_N[n]].tolist()
            shaped_V = shaped(logits_TV[t - 1], ids[:t])
            logprobs_K, logprobs_V = shaped_V[left].log_softmax(0), shaped_V.log_softmax(0)
            base_V = shaped(base_TV[t - 1], ids[:t]).log_softmax(0)
            ratio = (logprobs_K[left.index(ids[t])] - float(batch.logprobs_N[n])).exp()
            entropy = -(logprobs_V.exp() * logprobs_V).sum()
            bonus = -ENTROPY * (logprobs_K.exp() * logprobs_K).sum()
            distance = logprobs_V[ids[t]] - base_V[ids[t]]
            estimate = (-distance).exp() - 1 + distance
            loss = loss - ratio * float(batch.weights_N[n]) - bonus + KL * estimate
            entropies.append(float(entropy.detach()))
            estimates.append(float(estimate.detach()))
    loss.backward()
    gradient = {n: p.grad for n, p in double.named_parameters() if p.grad is not None}
    return Plain(gradient, entropies, estimates)


def shaped(logits_V: Tensor, before: list[int]) -> Tensor:
    """After the penalty and the temperature."""
    factors_V = torch.ones(VOCABULARY, dtype=torch.float64)
    for seen in set(before):
        factors_V[seen] = PENALTY if logits_V[seen] < 0 else 1 / PENALTY
    return logits_V * factors_V / MILD


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("budget", [1, 20, 10_000])
@pytest.mark.parametrize("max_logits", [7 * VOCABULARY, 1 << 20])
def test_gradient_equals_the_float64_reference(
    base_folder: Path, tmp_path: Path, spec: ModelSpec, budget: int, max_logits: int
) -> None:
    engine = opened(engine_for(base_folder, tmp_path, micro_batch_tokens=budget), spec)
    model = model_of(engine)
    base = copy.deepcopy(model.network.causal)
    stirred(engine)
    batch = masked(sampled_batch(model.network.causal, 1, LENGTHS, MILD), 2)
    expected = plain(model.network.causal, base, batch)
    model.network = replace(model.network, max_logits=max_logits)
    told = done(engine.apply(MODEL, 4, op_of(batch)))
    assert relative_error(gradient_of(engine), expected.gradient) <= 1e-6
    assert told.metrics["entropy:mean"] == pytest.approx(np.mean(expected.entropies), rel=1e-5)
    assert told.metrics["kl_reference:mean"] == pytest.approx(
        np.mean(expected.estimates), rel=1e-4, abs=1e-7
    )


def alone(engine: Engine) -> TokenBatch:
    """Nothing was left beside any of the sampled tokens."""
    batch = sampled_batch(model_of(engine).network.causal, 1, LENGTHS, MILD)
    sets = SamplingMask.of([batch.ids_N[n : n + counts] for n, counts in enumerate(batch.mask_N)])
    certain_N = np.zeros_like(batch.logprobs_N)
    return batch.model_copy(update={"sampling_mask": sets, "logprobs_N": certain_N})


def test_an_entropy_bonus_raises_nothing_that_was_cut(base_folder: Path, tmp_path: Path) -> None:
    """What was cut costs no reward, so no reward would hold it down again."""
    engine = stirred(opened(engine_for(base_folder, tmp_path), FULL))
    op = op_of(alone(engine)).model_copy(update={"kl": None})
    told = done(engine.apply(MODEL, 4, op))
    assert told.metrics["ratio:mean"] == 1.0
    assert told.metrics["entropy:mean"] > 1.0
    assert sum(float(g.abs().sum()) for g in gradient_of(engine).values()) == 0.0


@pytest.mark.parametrize("spec", SPECS)
def test_a_kl_penalty_draws_what_was_left_alone_towards_the_reference(
    base_folder: Path, tmp_path: Path, spec: ModelSpec
) -> None:
    """Its probability is 1 whatever the weights, so nothing else can move it."""
    engine = stirred(opened(engine_for(base_folder, tmp_path), spec))
    op = op_of(alone(engine))
    before = done(engine.apply(MODEL, 4, op)).metrics["kl_reference:mean"]
    done(engine.apply(MODEL, 5, optim_step(learning_rate=1e-3)))
    after = done(engine.apply(MODEL, 6, op)).metrics["kl_reference:mean"]
    assert after < 0.9 * before


def test_a_mask_with_ids_outside_the_vocabulary_is_refused(
    base_folder: Path, tmp_path: Path
) -> None:
    batch = TokenBatch.model_validate(
        {
            "ids_N": [3, 4], "lengths_B": [2], "mask_N": [0, 1], "logprobs_N": [0.0, -1.0],
            "weights_N": [0.0, 1.0], "sampling_mask": {"sizes_N": [0, 2], "ids_S": [4, VOCABULARY]},
        }
    )  # fmt: skip
    engine = opened(engine_for(base_folder, tmp_path), FULL)
    assert "token id 56 is outside" in failed(engine.apply(MODEL, 1, forward_backward(batch)))
