"""forward_backward against a plain float64 implementation."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.support.losses import TOKEN_LOSSES, cross_entropy, ppo
from tests.support.trainer import (
    FULL,
    MILD,
    MODEL,
    SPECS,
    TokenLoss,
    apply_all,
    done,
    engine_for,
    failed,
    forward_backward,
    gradient_of,
    model_of,
    opened,
    optim_step,
    random_batch,
    reference_gradient,
    reference_logprobs,
    relative_error,
    sampled_batch,
    sequences,
)
from torch import Tensor

from warren_gpu_worker.trainer.child.engine import Engine
from warren_schemas.config import CrossEntropyLoss, ImportanceSamplingLoss, Loss
from warren_schemas.token_batch import TokenBatch
from warren_schemas.training import ModelSpec


def stirred(engine: Engine) -> Engine:
    """Away from the start, where half of an adapter's gradient is zero."""
    apply_all(engine, [forward_backward(random_batch(99), CrossEntropyLoss()), optim_step()])
    return engine


def assert_close(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert relative_error(found, expected) <= 1e-6


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize(("loss", "token_loss"), TOKEN_LOSSES)
@pytest.mark.parametrize("budget", [1, 20, 10_000])
def test_gradient_equals_the_float64_reference(
    base_folder: Path,
    tmp_path: Path,
    spec: ModelSpec,
    loss: Loss,
    token_loss: TokenLoss,
    budget: int,
) -> None:
    engine = stirred(opened(engine_for(base_folder, tmp_path, micro_batch_tokens=budget), spec))
    causal = model_of(engine).network.causal
    batch = sampled_batch(causal, 1, (5, 12, 3, 9, 1, 2, 12), MILD)
    expected = reference_gradient(causal, batch, token_loss, MILD)
    done(engine.apply(MODEL, 3, forward_backward(batch, loss, temperature=MILD)))
    assert_close(gradient_of(engine), expected)


@pytest.mark.parametrize("spec", SPECS)
def test_gradients_add_up_until_the_step(
    base_folder: Path, tmp_path: Path, spec: ModelSpec
) -> None:
    engine = stirred(opened(engine_for(base_folder, tmp_path), spec))
    causal = model_of(engine).network.causal
    batches = [sampled_batch(causal, seed, (5, 12, 3, 9), MILD) for seed in (1, 2, 3)]
    parts = [reference_gradient(causal, batch, ppo, MILD) for batch in batches]
    apply_all(engine, [forward_backward(batch, temperature=MILD) for batch in batches], first=3)
    total = {name: sum((part[name] for part in parts), torch.zeros(())) for name in parts[0]}
    assert_close(gradient_of(engine), total)
    done(engine.apply(MODEL, 6, optim_step()))
    assert gradient_of(engine) == {}


@pytest.mark.parametrize(("loss", "token_loss"), TOKEN_LOSSES)
def test_row_27_a_token_outside_the_mask_has_no_influence_but_as_context(
    base_folder: Path, tmp_path: Path, loss: Loss, token_loss: TokenLoss
) -> None:
    """Everything that stands at the last, unmasked token may change without any effect."""
    one, other = random_batch(1, (8,)), random_batch(2, (8,))
    mask_N = np.array([1, 0, 1, 1, 0, 1, 0, 0], np.uint8)
    gradients: list[dict[str, Tensor]] = []
    for ending in (one, other):
        batch = TokenBatch(
            ids_N=np.concatenate([one.ids_N[:6], ending.ids_N[6:]]),
            lengths_B=one.lengths_B,
            mask_N=mask_N,
            logprobs_N=np.where(mask_N, one.logprobs_N, ending.logprobs_N * 20),
            weights_N=np.where(mask_N, one.weights_N, ending.weights_N * 1e6),
        )
        engine = opened(engine_for(base_folder, tmp_path), FULL)
        done(engine.apply(MODEL, 1, forward_backward(batch, loss)))
        gradients.append(gradient_of(engine))
    first, second = gradients
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("budget", [1, 20, 10_000])
def test_logprobs_equal_a_plain_forward(
    base_folder: Path, tmp_path: Path, spec: ModelSpec, budget: int
) -> None:
    engine = stirred(opened(engine_for(base_folder, tmp_path, micro_batch_tokens=budget), spec))
    batch = random_batch(4, (7, 1, 13, 2, 13))
    outcome = done(engine.apply(MODEL, 3, forward_backward(batch, temperature=1.3, logprobs=True)))
    with torch.no_grad():
        expected_N = reference_logprobs(model_of(engine).network.causal, batch, 1.3)
    assert outcome.logprobs_N is not None
    np.testing.assert_allclose(outcome.logprobs_N, expected_N.numpy(), atol=2e-5)
    assert all(outcome.logprobs_N[place.start] == 0 for place in sequences(batch))


def test_what_is_trained_may_be_other_tokens_than_those_that_follow(
    base_folder: Path, tmp_path: Path
) -> None:
    batch = random_batch(4, (7, 1, 13, 2, 13))
    other = batch.model_copy(update={"targets_N": random_batch(9, (36,)).ids_N})
    engine = opened(engine_for(base_folder, tmp_path, micro_batch_tokens=20), FULL)
    op = forward_backward(other, CrossEntropyLoss(), temperature=MILD, logprobs=True)
    outcome = done(engine.apply(MODEL, 1, op))
    causal = model_of(engine).network.causal
    with torch.no_grad():
        expected_N = reference_logprobs(causal, other, MILD)
        assert not torch.allclose(expected_N, reference_logprobs(causal, batch, MILD))
    assert outcome.logprobs_N is not None
    np.testing.assert_allclose(outcome.logprobs_N, expected_N.numpy(), atol=2e-5)
    assert_close(gradient_of(engine), reference_gradient(causal, other, cross_entropy, MILD))
    unknown = batch.model_copy(update={"targets_N": np.full(36, 10_000, np.int32)})
    assert "10000 is outside" in failed(engine.apply(MODEL, 2, forward_backward(unknown)))


def test_asking_for_logprobs_leaves_the_gradient_as_it_is(
    base_folder: Path, tmp_path: Path
) -> None:
    gradients: list[dict[str, Tensor]] = []
    for logprobs_wanted in (False, True):
        engine = opened(engine_for(base_folder, tmp_path), FULL)
        done(engine.apply(MODEL, 1, forward_backward(random_batch(5), logprobs=logprobs_wanted)))
        gradients.append(gradient_of(engine))
    assert_close(gradients[1], {n: g.double() for n, g in gradients[0].items()})


def test_chunked_logits_give_the_same_gradient(base_folder: Path, tmp_path: Path) -> None:
    batch = random_batch(6, (20, 30, 10))
    plain = opened(engine_for(base_folder, tmp_path), FULL)
    whole = done(plain.apply(MODEL, 1, forward_backward(batch)))
    chunked = opened(engine_for(base_folder, tmp_path), FULL)
    model = model_of(chunked)
    model.network = replace(model.network, max_logits=7 * 56)
    parts = done(chunked.apply(MODEL, 1, forward_backward(batch)))
    assert_close(gradient_of(chunked), {n: g.double() for n, g in gradient_of(plain).items()})
    assert parts.metrics == pytest.approx(whole.metrics, rel=1e-5)


def test_metrics_say_what_the_loss_saw(base_folder: Path, tmp_path: Path) -> None:
    batch = random_batch(7)
    engine = opened(engine_for(base_folder, tmp_path, micro_batch_tokens=15), FULL)
    metrics = done(engine.apply(MODEL, 1, forward_backward(batch))).metrics
    with torch.no_grad():
        new_N = reference_logprobs(model_of(engine).network.causal.double(), batch, 1.0).numpy()
    mask_N = batch.mask_N.astype(bool)
    mask_N[[place.start for place in sequences(batch)]] = False
    ratio = np.exp(new_N - batch.logprobs_N)[mask_N]
    weight = batch.weights_N[mask_N]
    expected = {
        "loss:sum": -np.minimum(ratio * weight, ratio.clip(0.8, 1.28) * weight).sum(),
        "tokens:sum": mask_N.sum(),
        "ratio:mean": ratio.mean(),
        "ratio:max": ratio.max(),
        "ess:mean": ratio.sum() ** 2 / (ratio**2).sum() / ratio.size,
        "kl_k3:mean": (ratio - 1 - np.log(ratio)).mean(),
        "clip_frac:mean": (((ratio > 1.28) & (weight > 0)) | ((ratio < 0.8) & (weight < 0))).mean(),
    }
    entropy = metrics.pop("entropy:mean")
    assert metrics == pytest.approx(expected, rel=1e-4)
    assert 0 < entropy < np.log(56)


def test_cross_entropy_reports_the_likelihood_only(base_folder: Path, tmp_path: Path) -> None:
    engine = opened(engine_for(base_folder, tmp_path), FULL)
    outcome = done(engine.apply(MODEL, 1, forward_backward(random_batch(8), CrossEntropyLoss())))
    assert outcome.metrics.keys() == {"loss:sum", "tokens:sum", "entropy:mean", "nll:mean"}


@pytest.mark.parametrize(
    ("change", "hint"),
    [
        ({"ids_N": [3, 56, 4]}, "token id 56 is outside the model's vocabulary of 56"),
        ({"mask_N": [1, 0, 0]}, "no token is under the mask"),
        ({"ids_N": [3] * 513}, "a sequence of 513 tokens is longer than the model's 512"),
        ({"logprobs_N": [0.0, -400.0, 0.0]}, "infinite or not a number"),
    ],
)
def test_a_batch_that_cannot_be_trained_on_fails_with_a_hint(
    base_folder: Path, tmp_path: Path, change: dict[str, list[float]], hint: str
) -> None:
    ids = change.get("ids_N", [3, 4, 5])
    n = len(ids)
    batch = TokenBatch.model_validate(
        {
            "ids_N": ids,
            "lengths_B": [n],
            "mask_N": [1] * n,
            "logprobs_N": [-1.0] * n,
            "weights_N": [1.0] * n,
            **change,
        }
    )
    engine = opened(engine_for(base_folder, tmp_path), FULL)
    loss = ImportanceSamplingLoss()
    assert hint in failed(engine.apply(MODEL, 1, forward_backward(batch, loss)))
    assert gradient_of(engine) == {}
