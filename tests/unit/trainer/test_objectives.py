# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
"""What holds a loss back, and losses of whole sequences, against plain float64 implementations."""

import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.support.losses import OBJECTIVES, Row, RowLoss
from tests.support.trainer import (
    FULL,
    LORA,
    MILD,
    MODEL,
    SPECS,
    apply_all,
    digest,
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

from warren_gpu_worker.trainer.child.engine import Engine
from warren_schemas.config import CispoLoss, CrossEntropyLoss, KlPenalty, PpoLoss
from warren_schemas.training import (
    Forward,
    ForwardBackward,
    KeepReference,
    LoadState,
    ModelSpec,
    SaveState,
)

LENGTHS = (5, 12, 3, 9, 1, 12)
BATCH = random_batch(1, LENGTHS)


def moved(engine: Engine, first: int = 2) -> Engine:
    """A reference is kept, and then the policy leaves it."""
    done(engine.apply(MODEL, first, KeepReference()))
    ops = [forward_backward(random_batch(99), CrossEntropyLoss()), optim_step(learning_rate=1e-2)]
    apply_all(engine, ops, first=first + 1)
    return engine


def op_with(**options: object) -> ForwardBackward:
    return ForwardBackward.model_validate({"loss": PpoLoss(), "batch": BATCH, **options})


@pytest.mark.parametrize(
    ("spec", "dtype", "tolerance"),
    [
        pytest.param(FULL, "float64", 1e-9, id="full"),
        pytest.param(LORA, "float64", 1e-9, id="lora"),
        pytest.param(FULL, "float32", 1e-6, id="full-float32"),
        pytest.param(LORA, "float32", 1e-6, id="lora-float32"),
    ],
)
@pytest.mark.parametrize(("options", "loss_of"), OBJECTIVES)
def test_gradient_equals_the_float64_reference(
    base_folder: Path,
    tmp_path: Path,
    spec: ModelSpec,
    dtype: str,
    tolerance: float,
    options: dict[str, object],
    loss_of: RowLoss,
) -> None:
    """In float64 to the last digits but a few, so that what float32 leaves is rounding only."""
    engine = opened(engine_for(base_folder, tmp_path, micro_batch_tokens=20, dtype=dtype), spec)
    # A LoRA adapter that stands at its start has half of its gradient zero: stir it first.
    apply_all(engine, [forward_backward(random_batch(98), CrossEntropyLoss()), optim_step()])
    base = copy.deepcopy(model_of(engine).network.causal).double()
    moved(engine, first=3)
    plain = copy.deepcopy(model_of(engine).network.causal).double()
    plain.zero_grad()
    batch = sampled_batch(plain, 1, LENGTHS, MILD)
    rows = [Row(plain, batch, place, base) for place in sequences(batch)]
    loss = torch.stack([loss_of(row) for row in rows]).sum()
    loss.backward()

    outcome = done(engine.apply(MODEL, 6, op_with(**options, batch=batch, temperature=MILD)))

    assert outcome.metrics["loss:sum"] == pytest.approx(loss.item(), rel=1e-5)
    expected = {n: p.grad for n, p in plain.named_parameters() if p.grad is not None}
    assert relative_error(gradient_of(engine), expected) <= tolerance


def test_a_lora_model_without_a_reference_is_compared_with_its_base(
    base_folder: Path, tmp_path: Path
) -> None:
    engine = opened(engine_for(base_folder, tmp_path), LORA)
    at_start = done(engine.apply(MODEL, 1, op_with(kl=KlPenalty())))
    assert at_start.metrics["kl_reference:mean"] == 0
    apply_all(engine, [optim_step(learning_rate=1e-2)], first=2)
    before = digest(model_of(engine).parameters.values())
    later = done(engine.apply(MODEL, 3, op_with(kl=KlPenalty())))
    assert later.metrics["kl_reference:mean"] > 0
    assert digest(model_of(engine).parameters.values()) == before


def test_a_full_model_without_a_reference_says_what_to_do(
    base_folder: Path, tmp_path: Path
) -> None:
    engine = opened(engine_for(base_folder, tmp_path), FULL)
    assert "send keep_reference" in failed(engine.apply(MODEL, 1, op_with(kl=KlPenalty())))


@pytest.mark.parametrize("spec", SPECS)
def test_a_reference_outlives_a_trainer(base_folder: Path, tmp_path: Path, spec: ModelSpec) -> None:
    engine = moved(opened(engine_for(base_folder, tmp_path), spec), first=1)
    url = done(engine.apply(MODEL, 4, SaveState(name="x"))).checkpoint_url
    other = engine_for(base_folder, tmp_path)
    done(other.open(MODEL, spec, checkpoint_url=url, next_op=5))
    op = op_with(kl=KlPenalty())
    assert done(engine.apply(MODEL, 5, op)) == done(other.apply(MODEL, 5, op))


def test_forward_answers_like_forward_backward_and_changes_nothing(
    base_folder: Path, tmp_path: Path
) -> None:
    engine = opened(engine_for(base_folder, tmp_path), FULL)
    op = op_with(return_logprobs=True)
    looked = done(engine.apply(MODEL, 1, Forward.model_validate({**dict(op), "kind": "forward"})))
    assert gradient_of(engine) == {}
    assert "no gradient" in failed(engine.apply(MODEL, 2, optim_step()))
    trained = done(engine.apply(MODEL, 3, op))
    assert looked.metrics == pytest.approx(trained.metrics)
    assert looked.logprobs_N is not None and trained.logprobs_N is not None
    assert np.array_equal(looked.logprobs_N, trained.logprobs_N)


@pytest.mark.parametrize("optimizer", [True, False])
def test_loading_a_state_goes_on_from_there(
    base_folder: Path, tmp_path: Path, optimizer: bool
) -> None:
    window = [forward_backward(random_batch(3)), optim_step()]
    engine = opened(engine_for(base_folder, tmp_path), LORA)
    saved = apply_all(engine, [*window, SaveState(name="then"), *window, window[0]])
    url = done(saved[2]).checkpoint_url
    assert url is not None
    then = engine_for(base_folder, tmp_path / "other")
    done(then.open(MODEL, LORA, checkpoint_url=url, next_op=4))
    if not optimizer:
        model_of(then).optimizer.state.clear()
    loaded = done(engine.apply(MODEL, 7, LoadState(url=url, optimizer=optimizer)))
    assert loaded.version == 3  # a version that no policy had before
    apply_all(engine, window, first=8)
    apply_all(then, window, first=4)
    same = [digest(model_of(e).parameters.values()) for e in (engine, then)]
    assert same[0] == same[1]


def test_a_state_that_is_not_there_changes_nothing(base_folder: Path, tmp_path: Path) -> None:
    engine = opened(engine_for(base_folder, tmp_path), LORA)
    window = [forward_backward(random_batch(3)), optim_step()]
    apply_all(engine, window[:1])
    assert "is not there" in failed(engine.apply(MODEL, 2, LoadState(url=str(tmp_path / "no"))))
    assert done(engine.apply(MODEL, 3, optim_step())).version == 1


def test_truncation_reports_how_many_weights_were_capped(base_folder: Path, tmp_path: Path) -> None:
    engine = opened(engine_for(base_folder, tmp_path), FULL)
    batch = sampled_batch(model_of(engine).network.causal, 1, LENGTHS, 1.0)
    outcome = done(engine.apply(MODEL, 1, op_with(tis_cap=1.0, loss=CispoLoss(), batch=batch)))
    assert 0 < outcome.metrics["tis_truncated:mean"] < 1


def test_options_that_cannot_work_are_refused() -> None:
    with pytest.raises(ValueError, match="expected gradient of 0"):
        KlPenalty(estimator="k1")
    with pytest.raises(ValueError, match="cross_entropy ignores"):
        op_with(tis_cap=2.0, loss=CrossEntropyLoss())
