"""Models that were offloaded come back with the same bits: adapters from a file, others from the host."""

import resource
from collections.abc import Callable, Generator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import cast

import pytest
import torch
from tests.support.trainer import (
    BASE,
    FULL,
    LORA,
    MODEL,
    base_digest,
    digest,
    done,
    engine_for,
    failed,
    forward_backward,
    opened,
    optim_step,
    random_batch,
    seal_of,
    some_ops,
)
from torch import UntypedStorage

from warren_gpu_worker.trainer.child.engine import Engine
from warren_gpu_worker.trainer.child.model_factory import EngineConfig
from warren_schemas.ids import ModelId
from warren_schemas.training import KeepReference, OpBody, OpDone, SaveState

MODELS = [ModelId(f"model_{n}") for n in range(5)]
OPS: list[OpBody] = [KeepReference(), *some_ops(9, seed=2), forward_backward(random_batch(5))]


@contextmanager
def engine_with(base_folder: Path, checkpoints: Path, n_resident: int) -> Generator[Engine]:
    config = EngineConfig({BASE: str(base_folder)}, str(checkpoints), resident_models=n_resident)
    engine = Engine(config)
    for model in MODELS:
        done(engine.open(model, LORA, checkpoint_url=None, next_op=1))
    yield engine
    for model in MODELS:
        engine.close(model)


def memory_bytes(engine: Engine, model: ModelId) -> int:
    entry = engine._entries[model].model  # pyright: ignore[reportPrivateUsage]
    return sum(p.untyped_storage().nbytes() for p in entry.parameters.values())


def weights_after(engine: Engine) -> list[str]:
    """Interleaved op by op, so that every op finds its model offloaded."""
    for number, op in enumerate([*OPS, optim_step()], 1):
        for model in MODELS:
            done(engine.apply(model, number, op))
    found: list[str] = []
    for model in MODELS:
        assert "no gradient" in failed(engine.apply(model, 99, optim_step()))
        entry = engine._entries[model].model  # pyright: ignore[reportPrivateUsage]
        # A copy, for what numpy has looked at can't be offloaded.
        found.append(digest(p.clone() for p in entry.parameters.values()))
    return found


def test_offloaded_models_train_to_the_same_bits(base_folder: Path, tmp_path: Path) -> None:
    with engine_with(base_folder, tmp_path / "a", n_resident=5) as engine:
        expected = weights_after(engine)
    with engine_with(base_folder, tmp_path / "b", n_resident=2) as engine:
        assert [memory_bytes(engine, model) > 0 for model in MODELS] == [False] * 3 + [True] * 2
        assert weights_after(engine) == expected
        base = engine._entries[MODELS[0]].model.base  # pyright: ignore[reportPrivateUsage]
        assert base is not None
        assert digest(base.state_dict().values()) == base_digest(base_folder)


def test_a_model_that_finds_the_disk_full_stays_and_fails_nobody(
    base_folder: Path, tmp_path: Path
) -> None:
    with engine_with(base_folder, tmp_path, n_resident=1) as engine:
        for number, op in enumerate([*OPS, optim_step()], 1):
            done(engine.apply(MODELS[4], number, op))
        usual = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, usual[1]))
        try:
            done(engine.apply(MODELS[0], 1, KeepReference()))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, usual)
        assert [memory_bytes(engine, model) > 0 for model in MODELS] == [True, *[False] * 3, True]
        done(engine.apply(MODELS[1], 1, KeepReference()))
        assert [memory_bytes(engine, model) > 0 for model in MODELS] == [False, True, *[False] * 3]


def test_an_offloaded_model_can_be_closed_and_opened_again(
    base_folder: Path, tmp_path: Path
) -> None:
    with engine_with(base_folder, tmp_path, n_resident=1) as engine:
        engine.close(MODELS[0])
        done(engine.open(MODELS[0], LORA, checkpoint_url=None, next_op=1))
        assert memory_bytes(engine, MODELS[0]) > 0


def full_model(base_folder: Path, checkpoints: Path) -> Engine:
    """With weights in memory of torch's own, as on a GPU; here they lie in the mapped file."""
    engine = opened(engine_for(base_folder, checkpoints), FULL)
    model = engine._entries[MODEL].model  # pyright: ignore[reportPrivateUsage]
    for name, parameter in model.parameters.items():
        parameter.data = parameter.data.clone()
        model.policy.tensors[name].set_(parameter.data)  # pyright: ignore[reportArgumentType]
    return engine


@pytest.mark.slow
def test_a_model_that_left_the_device_before_every_op_trains_to_the_same_bits(
    base_folder: Path, tmp_path: Path
) -> None:
    ops = [*OPS, optim_step(), SaveState(name="end")]
    found: list[str] = []
    outcomes: list[OpDone] = []
    for leaves in (False, True):
        engine = full_model(base_folder, tmp_path / str(leaves))
        for number, op in enumerate(ops, 1):
            if leaves:
                engine.offload()
                engine.offload()
                assert memory_bytes(engine, MODEL) == 0
            outcomes.append(done(engine.apply(MODEL, number, op)))
            assert memory_bytes(engine, MODEL) > 0
        found.append(seal_of(outcomes[-1]))
    assert found[0] == found[1]


def full_at_fourth_resize() -> Callable[[UntypedStorage, int], object]:
    """In place of a storage's `resize_`: the fourth one finds the device full."""
    resize = cast("Callable[[UntypedStorage, int], object]", UntypedStorage.resize_)
    calls = count(1)

    def resize_or_fail(storage: UntypedStorage, size_bytes: int) -> object:
        if next(calls) == 4:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return resize(storage, size_bytes)

    return resize_or_fail


def test_a_return_that_finds_no_memory_fails_its_op_and_is_completed_by_the_next(
    base_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = full_model(base_folder, tmp_path)
    weights = engine._entries[MODEL].model.parameters  # pyright: ignore[reportPrivateUsage]
    expected = digest(p.clone() for p in weights.values())
    engine.offload()
    with monkeypatch.context() as patch:
        patch.setattr(UntypedStorage, "resize_", full_at_fourth_resize())
        assert "memory" in failed(engine.apply(MODEL, 1, forward_backward(random_batch(1))))
    engine.offload()
    assert memory_bytes(engine, MODEL) == 0
    assert "op 1" in failed(engine.apply(MODEL, 2, optim_step()))
    assert digest(p.clone() for p in weights.values()) == expected


@pytest.mark.parametrize(
    "op", [forward_backward(random_batch(3)), optim_step()], ids=["fb", "step"]
)
def test_an_adapter_that_finds_no_memory_on_its_return_loses_its_window_and_nothing_else(
    base_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, op: OpBody
) -> None:
    """The failed op drops the gradient, which lies in the file with all the rest."""
    before = (KeepReference(), forward_backward(random_batch(2)), optim_step())
    after = (forward_backward(random_batch(4)), optim_step(), SaveState(name="end"))
    found: list[str] = []
    for is_full_once in (False, True):
        with engine_with(base_folder, tmp_path / str(is_full_once), n_resident=1) as engine:
            for number, body in enumerate(before, 1):
                done(engine.apply(MODELS[0], number, body))
            if is_full_once:
                done(engine.apply(MODELS[0], 4, forward_backward(random_batch(5))))
                done(engine.apply(MODELS[1], 1, KeepReference()))  # which offloads the first
                with monkeypatch.context() as patch:
                    patch.setattr(UntypedStorage, "resize_", full_at_fourth_resize())
                    assert "out of memory" in failed(engine.apply(MODELS[0], 5, op))
                failed(engine.apply(MODELS[0], 6, optim_step()))
            outcomes = [
                engine.apply(MODELS[0], number, body) for number, body in enumerate(after, 7)
            ]
            found.append(seal_of(outcomes[-1]))
    assert found[0] == found[1]
