"""To the last bit: sequences that share a batch, activations computed again, adapters brought along."""

from pathlib import Path

import numpy as np
import pytest
import torch
from tests.support.trainer import (
    BASE,
    LORA,
    MODEL,
    SPECS,
    apply_all,
    done,
    engine_for,
    failed,
    forward_backward,
    model_of,
    opened,
    optim_step,
    random_batch,
    sequences,
    some_ops,
    weights_of,
)

from warren_gpu_worker.trainer.child.engine import Engine
from warren_gpu_worker.trainer.child.model_factory import EngineConfig
from warren_schemas.config import CrossEntropyLoss, LoraUpdate
from warren_schemas.token_batch import TokenBatch
from warren_schemas.training import Forward, ModelSpec, PublishPolicy


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("budget", [40, 10_000])
def test_a_sequence_s_logprobs_do_not_know_what_stands_beside_it(
    base_folder: Path, tmp_path: Path, spec: ModelSpec, budget: int
) -> None:
    """Other tokens in any one sequence change no other's logprobs by one bit."""
    engine = opened(engine_for(base_folder, tmp_path, micro_batch_tokens=budget), spec)
    apply_all(engine, [forward_backward(random_batch(9), CrossEntropyLoss()), optim_step()])
    batch, other = (random_batch(seed, (7, 13, 13, 2, 30, 8)) for seed in (1, 2))

    def logprobs_N(batch: TokenBatch) -> "np.ndarray[tuple[int], np.dtype[np.float32]]":
        op = Forward(loss=CrossEntropyLoss(), batch=batch, return_logprobs=True)
        found = done(engine.apply(MODEL, 3, op)).logprobs_N
        assert found is not None
        return found

    before_N = logprobs_N(batch)
    for place in sequences(batch):
        ids_N = batch.ids_N.copy()
        ids_N[place] = other.ids_N[place]
        after_N = logprobs_N(batch.model_copy(update={"ids_N": ids_N}))
        elsewhere = np.ones(ids_N.size, bool)
        elsewhere[place] = False
        assert np.array_equal(after_N[elsewhere], before_N[elsewhere])
        if place.stop - place.start > 1:
            assert not np.array_equal(after_N[place], before_N[place])


@pytest.mark.parametrize("spec", SPECS)
def test_activations_that_are_computed_again_leave_the_same_weights(
    base_folder: Path, tmp_path: Path, spec: ModelSpec
) -> None:
    found: list[str] = []
    for again in (False, True):
        config = EngineConfig({BASE: str(base_folder)}, str(tmp_path), checkpoint_activations=again)
        engine = opened(Engine(config), spec)
        apply_all(engine, some_ops(8))
        found.append(weights_of(engine))
    assert found[0] == found[1]


@pytest.mark.parametrize("spec", SPECS)
def test_bfloat16_keeps_what_it_learns_in_float32(
    base_folder: Path, tmp_path: Path, spec: ModelSpec
) -> None:
    """Steps far below bfloat16's resolution of a weight must not get lost."""
    engine = opened(engine_for(base_folder, tmp_path, dtype="bfloat16"), spec)
    model = model_of(engine)
    assert {p.dtype for p in model.parameters.values()} == {torch.float32}
    before = [p.detach().clone() for p in model.parameters.values()]
    window = [forward_backward(random_batch(1)), optim_step(learning_rate=1e-6)]
    apply_all(engine, window * 5)
    moved = torch.cat(
        [(p - b).flatten() for p, b in zip(model.parameters.values(), before, strict=True)]
    )
    assert 1e-6 < moved.abs().max().item() < 1e-5


def test_lora_leaves_out_what_is_excluded(base_folder: Path, tmp_path: Path) -> None:
    update = LoraUpdate(rank=4, exclude=("k_proj", "down_proj"))
    engine = opened(engine_for(base_folder, tmp_path), ModelSpec(base_model=BASE, update=update))
    names = " ".join(model_of(engine).parameters)
    assert "q_proj" in names and "up_proj" in names
    assert "k_proj" not in names and "down_proj" not in names


def test_the_adapter_s_own_seed_counts_before_the_model_s(
    base_folder: Path, tmp_path: Path
) -> None:
    def start(model_seed: int, adapter_seed: int | None) -> str:
        update = LoraUpdate(rank=4, seed=adapter_seed)
        spec = ModelSpec(base_model=BASE, update=update, seed=model_seed)
        return weights_of(opened(engine_for(base_folder, tmp_path), spec))

    assert start(1, 5) == start(2, 5) == start(5, None) != start(1, None)


def starting_from(base_folder: Path, checkpoints: Path, adapter: str) -> Engine:
    return Engine(EngineConfig({BASE: str(base_folder)}, str(checkpoints), adapters={"a": adapter}))


def test_training_starts_with_an_adapter(base_folder: Path, tmp_path: Path) -> None:
    trained = opened(engine_for(base_folder, tmp_path), LORA)
    ops = [forward_backward(random_batch(1)), optim_step(), PublishPolicy()]
    policy = done(apply_all(trained, ops)[-1]).policy
    assert policy is not None
    spec = LORA.model_copy(update={"update": LORA.update.model_copy(update={"start_adapter": "a"})})
    engine = opened(starting_from(base_folder, tmp_path / "other", policy.url), spec)
    assert weights_of(engine) == weights_of(trained)


def test_an_adapter_that_a_user_uploaded_lies_where_the_spec_says(
    base_folder: Path, tmp_path: Path
) -> None:
    """Its name is its user's, whatever the worker offers under it; without an address a checkpoint takes its place."""
    trained = opened(engine_for(base_folder, tmp_path), LORA)
    policy = done(
        apply_all(trained, [forward_backward(random_batch(1)), optim_step(), PublishPolicy()])[-1]
    ).policy
    assert policy is not None
    update = LORA.update.model_copy(update={"start_adapter": "ann/a@4f2a91"})
    spec = LORA.model_copy(update={"update": update, "start_adapter_url": policy.url})
    engine = opened(starting_from(base_folder, tmp_path / "other", "/nowhere"), spec)
    assert weights_of(engine) == weights_of(trained)
    bare = spec.model_copy(update={"start_adapter_url": None})
    engine = opened(starting_from(base_folder, tmp_path / "third", "/nowhere"), bare)
    assert weights_of(engine) == weights_of(opened(engine_for(base_folder, tmp_path / "4"), LORA))


@pytest.mark.parametrize(
    ("change", "hint"),
    [
        ({"start_adapter": "b"}, "offers no adapter b (it offers a)"),
        ({"rank": 8}, "has rank 4 and alpha 8.0, the model 8 and 8"),
        ({"exclude": ("k_proj",)}, "sits on other modules"),
    ],
)
def test_an_adapter_that_does_not_fit_is_refused(
    base_folder: Path, tmp_path: Path, change: dict[str, object], hint: str
) -> None:
    trained = opened(engine_for(base_folder, tmp_path), LORA)
    policy = done(trained.apply(MODEL, 1, PublishPolicy())).policy
    assert policy is not None
    update = LORA.update.model_copy(update={"start_adapter": "a", **change})
    engine = starting_from(base_folder, tmp_path / "other", policy.url)
    spec = LORA.model_copy(update={"update": update})
    assert hint in failed(engine.open(MODEL, spec, checkpoint_url=None, next_op=1))


def test_an_adapter_that_is_not_there_is_refused(base_folder: Path, tmp_path: Path) -> None:
    update = LORA.update.model_copy(update={"start_adapter": "a"})
    engine = starting_from(base_folder, tmp_path, str(tmp_path / "nothing"))
    spec = LORA.model_copy(update={"update": update})
    assert "can't be read" in failed(engine.open(MODEL, spec, checkpoint_url=None, next_op=1))
