# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
"""Ops of several models in one batch do what each would do alone."""

import logging
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.support.trainer import (
    BASE,
    LORA,
    done,
    engine_for,
    failed,
    forward_backward,
    optim_step,
    random_batch,
)
from torch import Tensor

from warren_gpu_worker.trainer.child import engine as engine_module
from warren_gpu_worker.trainer.child.engine import Engine
from warren_gpu_worker.trainer.child.model_factory import EngineConfig
from warren_gpu_worker.trainer.training.trainable_model import TrainableModel
from warren_schemas.config import CrossEntropyLoss, ImportanceSamplingLoss, KlPenalty
from warren_schemas.ids import ModelId
from warren_schemas.training import ForwardBackward, ModelSpec, OpDone, OptimStep

MODELS = [ModelId(f"model_{n}") for n in range(8)]
Orders = list[tuple[ModelId, int, ForwardBackward]]


def spec_of(place: int, **changes: object) -> ModelSpec:
    """Adapters differ in where they start and in their scale."""
    update = LORA.update.model_copy(update={"alpha": 4.0 + place})
    return LORA.model_copy(update={"seed": place, "update": update, **changes})


def engine_with(base: Path, checkpoints: Path, specs: Sequence[ModelSpec]) -> Engine:
    engine = engine_for(base, checkpoints)
    for model, spec in zip(MODELS, specs, strict=False):
        done(engine.open(model, spec, checkpoint_url=None, next_op=1))
    return engine


def model_of(engine: Engine, model: ModelId) -> TrainableModel:
    return engine._entries[model].model  # pyright: ignore[reportPrivateUsage]


def weights_of(engine: Engine, model: ModelId) -> Tensor:
    tensors = model_of(engine, model).parameters.values()
    return torch.cat([tensor.detach().flatten().double() for tensor in tensors])


def gradient_of(engine: Engine, model: ModelId) -> Tensor:
    gradients = [p.grad for p in model_of(engine, model).parameters.values()]
    return torch.cat([g.flatten().double() for g in gradients if g is not None])


def distance(found: Tensor, expected: Tensor) -> float:
    """Relative to the norm of what is expected."""
    return float(torch.dist(found, expected) / torch.linalg.vector_norm(expected))


@pytest.fixture
def shared(caplog: pytest.LogCaptureFixture) -> Callable[[], list[int]]:
    """How many models were in each shared batch."""
    caplog.set_level(logging.DEBUG, engine_module.__name__)
    pattern = re.compile(r"(\d+) models share a batch")

    def sizes() -> list[int]:
        found = [pattern.fullmatch(message) for message in caplog.messages]
        return [int(match[1]) for match in found if match]

    return sizes


def an_op(model: int, window: int, lengths: Sequence[int] = (9, 12, 12, 7)) -> ForwardBackward:
    return forward_backward(random_batch(100 * window + model, lengths), CrossEntropyLoss())


def step() -> OptimStep:
    """With an epsilon far above rounding: AdamW makes a whole step of any gradient, also of one that
    is nothing but rounding (as in the first layer's queries here), however the batch is made."""
    return optim_step(eps=1.0)


def test_eight_models_together_equal_eight_alone(
    base_folder: Path, tmp_path: Path, shared: Callable[[], list[int]]
) -> None:
    specs = [spec_of(place) for place in range(8)]
    together, alone = (engine_with(base_folder, tmp_path, specs) for _ in range(2))
    for window in range(4):
        number = 3 * window + 1
        for op_number in (number, number + 1):
            orders: Orders = [
                (model, op_number, an_op(place, op_number)) for place, model in enumerate(MODELS)
            ]
            found = together.apply_batched(orders)
            for order, outcome in zip(orders, found, strict=True):
                expected = done(alone.apply(*order))
                assert done(outcome).metrics == pytest.approx(expected.metrics, rel=1e-5)
        for model in MODELS:
            apart = distance(gradient_of(together, model), gradient_of(alone, model))
            assert apart <= 1e-6  # on some processors not even rounding differs
            for engine in (together, alone):
                done(engine.apply(model, number + 2, step()))
            assert distance(weights_of(together, model), weights_of(alone, model)) <= 1e-6
    assert shared() == [8] * 8


def test_what_is_wrong_with_one_op_concerns_no_other(
    base_folder: Path, tmp_path: Path, shared: Callable[[], list[int]]
) -> None:
    specs = [spec_of(place) for place in range(3)]
    together, alone = (engine_with(base_folder, tmp_path, specs) for _ in range(2))
    bad = random_batch(1, (5, 6))
    bad = bad.model_copy(update={"logprobs_N": np.full(11, -4000.0, np.float32)})
    ops = [
        forward_backward(batch, ImportanceSamplingLoss())
        for batch in (random_batch(0, (5, 6)), bad, random_batch(2, (5, 6)))
    ]
    outcomes = together.apply_batched([(m, 1, op) for m, op in zip(MODELS, ops, strict=False)])
    assert shared() == [3]
    assert "infinite or not a number" in failed(outcomes[1])
    for place in (0, 2):
        done(outcomes[place])
        done(alone.apply(MODELS[place], 1, ops[place]))
        apart = distance(gradient_of(together, MODELS[place]), gradient_of(alone, MODELS[place]))
        assert apart <= 1e-6
    assert "op 1" in failed(together.apply(MODELS[1], 2, optim_step()))


def test_what_does_not_fit_together_goes_alone(
    base_folder: Path, tmp_path: Path, shared: Callable[[], list[int]]
) -> None:
    """A model that asks for it, another shape, a batch of quite another size, and an op in error."""
    wide = LORA.update.model_copy(update={"rank": 8})
    specs = [
        spec_of(0),
        spec_of(1),
        spec_of(2, deterministic=True),
        spec_of(3, update=wide),
        spec_of(4),
        spec_of(5),
    ]
    engine = engine_with(base_folder, tmp_path, specs)
    ops = [an_op(place, 1) for place in range(6)]
    ops[4] = an_op(4, 1, (100,) * 20)
    ops[5] = an_op(5, 1, (513, 3))
    outcomes = engine.apply_batched([(m, 1, op) for m, op in zip(MODELS, ops, strict=False)])
    assert shared() == [2]
    assert [isinstance(outcome, OpDone) for outcome in outcomes] == [True] * 5 + [False]
    assert "longer than the model's" in failed(outcomes[5])


def test_logprobs_and_reference_are_each_model_s_own(base_folder: Path, tmp_path: Path) -> None:
    specs = [spec_of(place) for place in range(2)]
    together, alone = (engine_with(base_folder, tmp_path, specs) for _ in range(2))
    for place in range(2):
        for engine in (together, alone):
            done(engine.apply(MODELS[place], 1, an_op(place, 1)))
            done(engine.apply(MODELS[place], 2, optim_step(learning_rate=0.05)))
    op = forward_backward(random_batch(7), logprobs=True)
    op = op.model_copy(update={"kl": KlPenalty(estimator="k3", coefficient=0.1)})
    found = together.apply_batched([(MODELS[place], 3, op) for place in range(2)])
    for place in range(2):
        expected = done(alone.apply(MODELS[place], 3, op))
        outcome = done(found[place])
        assert outcome.logprobs_N is not None and expected.logprobs_N is not None
        np.testing.assert_allclose(outcome.logprobs_N, expected.logprobs_N, atol=2e-5)
        name = "kl_reference:mean"
        assert outcome.metrics[name] == pytest.approx(expected.metrics[name], rel=1e-4)
    assert done(found[0]).metrics != done(found[1]).metrics


def test_no_more_models_share_a_batch_than_may_be_in_memory(
    base_folder: Path, tmp_path: Path, shared: Callable[[], list[int]]
) -> None:
    config = EngineConfig({BASE: str(base_folder)}, str(tmp_path), resident_models=3)
    engine = Engine(config)
    for place, model in enumerate(MODELS):
        done(engine.open(model, spec_of(place), checkpoint_url=None, next_op=1))
    orders: Orders = [(model, 1, an_op(place, 1)) for place, model in enumerate(MODELS)]
    for outcome in engine.apply_batched(orders):
        done(outcome)
    assert shared() == [3, 3, 2]
    for model in MODELS:
        engine.close(model)


def test_a_model_of_rank_one_keeps_its_gradient_when_those_of_its_batch_are_offloaded(
    base_folder: Path, tmp_path: Path, shared: Callable[[], list[int]]
) -> None:
    """At rank 1 a gradient lies as its parameter does already, inside the gradient of the stack."""
    update = LORA.update.model_copy(update={"rank": 1})
    config = EngineConfig({BASE: str(base_folder)}, str(tmp_path), resident_models=2)
    engine, alone = Engine(config), engine_for(base_folder, tmp_path)
    for place, model in enumerate(MODELS[:3]):
        for one in (engine, alone):
            spec = spec_of(place, update=update)
            done(one.open(model, spec, checkpoint_url=None, next_op=1))
    orders: Orders = [(model, 1, an_op(place, 1)) for place, model in enumerate(MODELS[:2])]
    for order, outcome in zip(orders, engine.apply_batched(orders), strict=True):
        done(outcome)
        done(alone.apply(*order))
    assert shared() == [2]
    owners: dict[int, ModelId] = {}
    for model in MODELS[:2]:
        for parameter in model_of(engine, model).parameters.values():
            assert parameter.grad is not None
            memory = parameter.grad.untyped_storage().data_ptr()
            assert owners.setdefault(memory, model) == model
    done(engine.apply(MODELS[2], 1, an_op(2, 1)))  # which offloads the first
    assert distance(gradient_of(engine, MODELS[1]), gradient_of(alone, MODELS[1])) <= 1e-6
    for model in MODELS[:2]:
        for one in (engine, alone):
            done(one.apply(model, 2, step()))
        assert distance(weights_of(engine, model), weights_of(alone, model)) <= 1e-6
        engine.close(model)
    engine.close(MODELS[2])
