# pyright: reportUnknownMemberType=false
"""Several targets for each token: sequences of the same tokens, one for each target, whose inputs are computed once."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.support.losses import cross_entropy
from tests.support.trainer import (
    FULL,
    LORA,
    MILD,
    MODEL,
    SPECS,
    VOCABULARY,
    apply_all,
    done,
    engine_for,
    forward_backward,
    gradient_of,
    model_of,
    opened,
    optim_step,
    random_batch,
    reference_gradient,
    reference_logprobs,
    relative_error,
    sequences,
)

from warren_gpu_worker.trainer.training.micro_batches import MicroBatch, micro_batches
from warren_schemas.config import CrossEntropyLoss
from warren_schemas.ids import ModelId
from warren_schemas.token_batch import TokenBatch
from warren_schemas.training import ForwardBackward, ModelSpec

LENGTHS, N_TARGETS = (7, 3, 13, 1, 9, 9), (3, 1, 4, 2, 2, 1)
N_INPUTS = [12, 8, 8, 6, 2]


def several(seed: int, lengths: Sequence[int], n_targets: Sequence[int]) -> TokenBatch:
    """Each sequence as often as it has targets, which are any tokens."""
    once = random_batch(seed, lengths)
    parts = [once.ids_N[place] for place in sequences(once)]
    repeated = [part for part, n in zip(parts, n_targets, strict=True) for _ in range(n)]
    many = random_batch(seed + 1, [part.size for part in repeated])
    targets_N = random_batch(seed + 2, [part.size for part in repeated]).ids_N
    return many.model_copy(update={"ids_N": np.concatenate(repeated), "targets_N": targets_N})


def op_of(batch: TokenBatch) -> ForwardBackward:
    return forward_backward(batch, CrossEntropyLoss(), temperature=MILD, logprobs=True)


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("packs", [False, True])
@pytest.mark.parametrize("budget", [1, 20, 10_000])
def test_gradient_and_logprobs_equal_the_float64_reference(
    base_folder: Path, tmp_path: Path, spec: ModelSpec, budget: int, *, packs: bool
) -> None:
    engine = opened(engine_for(base_folder, tmp_path, micro_batch_tokens=budget, packs=packs), spec)
    apply_all(engine, [forward_backward(random_batch(99), CrossEntropyLoss()), optim_step()])
    model = model_of(engine)
    model.network = replace(model.network, max_logits=5 * VOCABULARY)
    batch = several(1, LENGTHS, N_TARGETS)
    outcome = done(engine.apply(MODEL, 3, op_of(batch)))
    causal = model.network.causal
    with torch.no_grad():
        expected_N = reference_logprobs(causal, batch, MILD).numpy()
    assert outcome.logprobs_N is not None
    np.testing.assert_allclose(outcome.logprobs_N, expected_N, atol=2e-5)
    expected = reference_gradient(causal, batch, cross_entropy, MILD)
    assert relative_error(gradient_of(engine), expected) <= 1e-6


def split(batch: TokenBatch, n_ranks: int, max_tokens: int, *, packs: bool) -> list[MicroBatch]:
    ranks = [
        micro_batches(
            batch,
            max_tokens=max_tokens,
            all_logprobs=True,
            device=torch.device("cpu"),
            rank=rank,
            n_ranks=n_ranks,
            packs=packs,
        )
        for rank in range(n_ranks)
    ]
    return [rows for each in ranks for rows in each]


def n_computed(rows: MicroBatch) -> int:
    return rows.input_ids_BT.numel() if rows.packed is None else rows.packed.ids_1P.numel()


@pytest.mark.parametrize("n_ranks", [1, 2])
def test_inputs_are_computed_once_and_every_target_is_told(n_ranks: int) -> None:
    batch = several(1, LENGTHS, N_TARGETS)
    rows = split(batch, n_ranks, 1, packs=False)
    assert sorted((n_computed(each) for each in rows), reverse=True)[:5] == N_INPUTS
    assert sum(each.mask_BT.numel() for each in rows) >= 6 * 3 + 2 + 12 * 4 + 8 * 3
    told = np.concatenate([each.places_BT[each.places_BT > 0] for each in rows])
    firsts = [place.start for place in sequences(batch)]
    assert sorted(set(told.tolist()) | set(firsts)) == list(range(batch.ids_N.size))
    (packed,) = split(batch, 1, 1000, packs=True)
    assert n_computed(packed) == sum(N_INPUTS)


def test_sequences_that_are_alike_are_computed_each_where_their_tokens_are_the_targets() -> None:
    batch = several(1, LENGTHS, N_TARGETS).model_copy(update={"targets_N": None})
    rows = split(batch, 1, 1, packs=False)
    assert all(each.inputs_B is None for each in rows)
    assert sum(map(n_computed, rows)) == 6 * 3 + 2 + 12 * 4 + 8 * 3


def test_models_that_share_a_batch_may_have_several_targets(
    base_folder: Path, tmp_path: Path
) -> None:
    models = [ModelId(f"model_{n}") for n in range(2)]
    ops = [op_of(several(1, LENGTHS, N_TARGETS)), op_of(several(5, (9, 9, 12), (2, 3, 1)))]
    together, alone = (engine_for(base_folder, tmp_path) for _ in range(2))
    for engine in (together, alone):
        for model in models:
            opened(engine, LORA, model)
    found = together.apply_batched([(m, 1, op) for m, op in zip(models, ops, strict=True)])
    for model, op, outcome in zip(models, ops, found, strict=True):
        expected = done(alone.apply(model, 1, op))
        assert done(outcome).metrics == pytest.approx(expected.metrics, rel=1e-5)
        logprobs_N = done(outcome).logprobs_N
        assert logprobs_N is not None and expected.logprobs_N is not None
        np.testing.assert_allclose(logprobs_N, expected.logprobs_N, atol=2e-5)


def test_a_row_without_a_trained_token_adds_nothing(base_folder: Path, tmp_path: Path) -> None:
    batch = several(1, (5, 5), (2, 2))
    mask_N = batch.mask_N.copy()
    mask_N[10:] = 0
    engine = opened(engine_for(base_folder, tmp_path, micro_batch_tokens=1), FULL)
    masked = batch.model_copy(update={"mask_N": mask_N})
    done(engine.apply(MODEL, 1, op_of(masked)))
    expected = reference_gradient(model_of(engine).network.causal, masked, cross_entropy, MILD)
    assert relative_error(gradient_of(engine), expected) <= 1e-6
