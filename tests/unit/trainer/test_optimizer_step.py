"""optim_step and windows: AdamW as torch has it, clipping, and what a failure leaves behind."""

from itertools import count
from pathlib import Path

import pytest
import torch
from tests.support.trainer import (
    FULL,
    LORA,
    MODEL,
    SPECS,
    apply_all,
    base_digest,
    digest,
    done,
    engine_for,
    failed,
    forward_backward,
    opened,
    optim_step,
    random_batch,
    some_ops,
    weights_of,
)
from torch import Tensor

from warren_gpu_worker.base_models import load_base
from warren_gpu_worker.trainer.child.engine import Engine
from warren_gpu_worker.trainer.training.trainable_model import TrainableModel
from warren_schemas.config import CrossEntropyLoss, LoraUpdate
from warren_schemas.ids import ModelId
from warren_schemas.training import ModelSpec, OptimStep, Refused


def model_of(engine: Engine, model: ModelId = MODEL) -> TrainableModel:
    return engine._entries[model].model  # pyright: ignore[reportPrivateUsage]


def test_ops_leave_nothing_behind_for_a_gpu_that_is_not_there(
    base_folder: Path, tmp_path: Path
) -> None:
    engine = opened(engine_for(base_folder, tmp_path), LORA)
    waiting = torch.cuda._queued_calls  # pyright: ignore[reportPrivateUsage]
    n_before = len(waiting)
    apply_all(engine, some_ops(6))
    assert len(waiting) == n_before


STEPS = [
    OptimStep(learning_rate=1e-3),
    OptimStep(learning_rate=3e-3, beta1=0.8, beta2=0.99, weight_decay=0.1),
    OptimStep(learning_rate=1e-4, eps=1e-6),
    OptimStep(learning_rate=2e-3, weight_decay=0.01),
]


@pytest.mark.parametrize("spec", SPECS)
def test_steps_equal_torch_adamw(base_folder: Path, tmp_path: Path, spec: ModelSpec) -> None:
    engine = opened(engine_for(base_folder, tmp_path), spec)
    own = list(model_of(engine).parameters.values())
    duplicates = [torch.nn.Parameter(p.detach().clone()) for p in own]
    reference = torch.optim.AdamW(duplicates, foreach=False, fused=False)
    for index, step in enumerate(STEPS):
        done(engine.apply(MODEL, 2 * index + 1, forward_backward(random_batch(index))))
        for duplicate, parameter in zip(duplicates, own, strict=True):
            assert parameter.grad is not None
            duplicate.grad = parameter.grad.clone()
        reference.param_groups[0].update(
            lr=step.learning_rate,
            betas=(step.beta1, step.beta2),
            eps=step.eps,
            weight_decay=step.weight_decay,
        )
        reference.step()  # pyright: ignore[reportUnknownMemberType]
        assert done(engine.apply(MODEL, 2 * index + 2, step)).version == index + 1
        for duplicate, parameter in zip(duplicates, own, strict=True):
            torch.testing.assert_close(parameter, duplicate, rtol=1e-5, atol=1e-6)


def test_clipping_scales_the_gradient_and_reports_the_norm_before(
    base_folder: Path, tmp_path: Path
) -> None:
    """With beta 0 and a large eps, AdamW's update is proportional to the gradient."""
    moved: list[Tensor] = []
    norms: list[float] = []
    for clip_norm in (0.0, 1e9, 0.05):
        engine = opened(engine_for(base_folder, tmp_path), FULL)
        before = [p.detach().clone() for p in model_of(engine).parameters.values()]
        step = optim_step(learning_rate=1e6, beta1=0, beta2=0, eps=1e9, clip_norm=clip_norm)
        outcomes = apply_all(engine, [forward_backward(random_batch(1)), step])
        norms.append(done(outcomes[1]).metrics["grad_norm"])
        after = model_of(engine).parameters.values()
        moved.append(torch.cat([(a - b).flatten() for a, b in zip(after, before, strict=True)]))
    assert norms[0] == norms[1] == norms[2] > 0.05
    assert torch.equal(moved[0], moved[1])
    torch.testing.assert_close(moved[2], moved[0] * (0.05 / norms[0]), rtol=1e-2, atol=1e-6)


def test_learning_rate_zero_changes_nothing_but_the_version(
    base_folder: Path, tmp_path: Path
) -> None:
    engine = opened(engine_for(base_folder, tmp_path), FULL)
    before = weights_of(engine)
    outcomes = apply_all(engine, [forward_backward(random_batch(1)), optim_step(learning_rate=0)])
    assert done(outcomes[1]).version == 1
    assert weights_of(engine) == before


@pytest.mark.parametrize("spec", SPECS)
def test_a_failed_forward_backward_fails_the_step_of_its_window_only(
    base_folder: Path, tmp_path: Path, spec: ModelSpec
) -> None:
    engine = opened(engine_for(base_folder, tmp_path), spec)
    before = weights_of(engine)
    nothing = random_batch(1, (1, 1))
    good = forward_backward(random_batch(2))
    outcomes = apply_all(engine, [good, forward_backward(nothing), good, optim_step()])
    assert "no token is under the mask" in failed(outcomes[1])
    done(outcomes[2])
    assert "a forward_backward since the last optim_step failed" in failed(outcomes[3])
    assert "no token is under the mask" in failed(outcomes[3])
    assert weights_of(engine) == before

    clean = opened(engine_for(base_folder, tmp_path), spec)
    apply_all(clean, [good, optim_step()])
    outcomes = apply_all(engine, [good, optim_step()], first=5)
    assert done(outcomes[1]).version == 1
    assert weights_of(engine) == weights_of(clean)


@pytest.mark.parametrize("seed_of_bad", [None, 1])
def test_a_step_that_was_refused_begins_a_window_like_one_that_failed(
    base_folder: Path, tmp_path: Path, seed_of_bad: int | None
) -> None:
    """Neither the gradient of its window nor a failure in it reaches the next step."""
    engine = opened(engine_for(base_folder, tmp_path), LORA)
    good = forward_backward(random_batch(2))
    lost = good if seed_of_bad is None else forward_backward(random_batch(seed_of_bad, (1, 1)))
    refused = Refused(reason="an optimizer dimuon is not offered here", begins_window=True)
    outcomes = apply_all(engine, [lost, refused, good, optim_step()])
    assert "dimuon" in failed(outcomes[1])
    assert done(outcomes[3]).version == 1

    clean = opened(engine_for(base_folder, tmp_path), LORA)
    apply_all(clean, [good, optim_step()])
    assert weights_of(engine) == weights_of(clean)


def test_running_out_of_memory_in_the_middle_leaves_a_living_model(
    base_folder: Path, tmp_path: Path
) -> None:
    engine = opened(engine_for(base_folder, tmp_path, micro_batch_tokens=10), FULL)
    before = weights_of(engine)
    calls = count(1)

    def out_of_memory_the_second_time(*_: object) -> None:
        if next(calls) == 2:
            raise torch.OutOfMemoryError("out of memory")

    model_of(engine).network.head.register_forward_hook(out_of_memory_the_second_time)
    op = forward_backward(random_batch(3))
    assert "out of memory" in failed(engine.apply(MODEL, 1, op))
    assert "out of memory" in failed(engine.apply(MODEL, 2, optim_step()))
    assert all(p.grad is None for p in model_of(engine).parameters.values())
    assert weights_of(engine) == before
    outcomes = apply_all(engine, [op, optim_step()], first=3)
    assert done(outcomes[1]).version == 1


def test_a_step_without_a_gradient_fails(base_folder: Path, tmp_path: Path) -> None:
    engine = opened(engine_for(base_folder, tmp_path), FULL)
    assert "no forward_backward since" in failed(engine.apply(MODEL, 1, optim_step()))


def test_a_gradient_that_is_no_number_is_dropped(base_folder: Path, tmp_path: Path) -> None:
    engine = opened(engine_for(base_folder, tmp_path), FULL)
    before = weights_of(engine)
    op = forward_backward(random_batch(1))
    done(engine.apply(MODEL, 1, op))
    some_gradient = next(iter(model_of(engine).parameters.values())).grad
    assert some_gradient is not None
    some_gradient[0] = torch.nan
    assert "norm is nan" in failed(engine.apply(MODEL, 2, optim_step()))
    assert weights_of(engine) == before
    done(apply_all(engine, [op, optim_step()], first=3)[1])


def test_lora_learns_and_leaves_its_base_alone(base_folder: Path, tmp_path: Path) -> None:
    engine = opened(engine_for(base_folder, tmp_path), LORA)
    op = forward_backward(random_batch(1), CrossEntropyLoss())
    positive = op.model_copy(
        update={"batch": op.batch.model_copy(update={"weights_N": abs(op.batch.weights_N)})}
    )
    outcomes = apply_all(engine, [positive, optim_step(learning_rate=1e-2)] * 20)
    losses = [done(outcome).metrics["loss:sum"] for outcome in outcomes[::2]]
    assert losses[-1] < losses[0] / 2
    base = model_of(engine).base
    assert base is not None
    fresh = load_base(str(base_folder))
    assert digest(base.state_dict().values()) == digest(fresh.state_dict().values())
    inner = dict(model_of(engine).network.causal.named_parameters())
    for name, tensor in fresh.named_parameters():
        wrapped = name.replace("_proj.weight", "_proj.base_layer.weight")
        assert torch.equal(inner[wrapped], tensor), name
    assert base_digest(base_folder) == digest(base.state_dict().values())


def test_models_share_a_base_and_nothing_else(base_folder: Path, tmp_path: Path) -> None:
    one, other = ModelId("model_one"), ModelId("model_other")
    engine = opened(opened(engine_for(base_folder, tmp_path), LORA, one), LORA, other)
    assert model_of(engine, one).base is model_of(engine, other).base
    for number, op in enumerate(some_ops(6), 1):
        engine.apply(one, number, op)
    alone = opened(engine_for(base_folder, tmp_path), LORA, other)
    for number, op in enumerate(some_ops(6, seed=1), 1):
        engine.apply(other, number, op)
        alone.apply(other, number, op)
    shared = digest(model_of(engine, other).parameters.values())
    assert shared == digest(model_of(alone, other).parameters.values())


def test_the_seed_makes_the_adapter(base_folder: Path, tmp_path: Path) -> None:
    def first_weights(seed: int) -> str:
        spec = LORA.model_copy(update={"seed": seed})
        return weights_of(opened(engine_for(base_folder, tmp_path), spec))

    assert first_weights(1) == first_weights(1) != first_weights(2)


@pytest.mark.parametrize(
    ("spec", "hint"),
    [
        (ModelSpec(base_model="nobody/knows", update=LORA.update), "no base model nobody/knows"),
        (
            LORA.model_copy(update={"update": LoraUpdate(targets=("no_such_module",))}),
            "no_such_module",
        ),
    ],
)
def test_a_model_that_cannot_be_made_says_why(
    base_folder: Path, tmp_path: Path, spec: ModelSpec, hint: str
) -> None:
    outcome = engine_for(base_folder, tmp_path).open(MODEL, spec, checkpoint_url=None, next_op=1)
    assert hint in failed(outcome)


def test_an_op_of_a_model_that_is_not_open_fails(base_folder: Path, tmp_path: Path) -> None:
    assert "not open" in failed(engine_for(base_folder, tmp_path).apply(MODEL, 1, optim_step()))
