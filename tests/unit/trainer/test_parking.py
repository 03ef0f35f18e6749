"""Adapters that were idle go to a file and come back with the same bits."""

import resource
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.support.trainer import (
    BASE,
    LORA,
    base_digest,
    digest,
    done,
    failed,
    forward_backward,
    optim_step,
    random_batch,
    some_ops,
)

from warren_gpu_worker.trainer.engine import Engine
from warren_gpu_worker.trainer.workshop import EngineConfig
from warren_schemas.ids import ModelId
from warren_schemas.training import KeepReference, OpBody

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
    """Interleaved op by op, so that every op finds its model parked."""
    for number, op in enumerate([*OPS, optim_step()], 1):
        for model in MODELS:
            done(engine.apply(model, number, op))
    found: list[str] = []
    for model in MODELS:
        assert "no gradient" in failed(engine.apply(model, 99, optim_step()))
        entry = engine._entries[model].model  # pyright: ignore[reportPrivateUsage]
        # A copy, for what numpy has looked at can't be parked.
        found.append(digest(p.clone() for p in entry.parameters.values()))
    return found


def test_parked_models_train_to_the_same_bits(base_folder: Path, tmp_path: Path) -> None:
    with engine_with(base_folder, tmp_path / "a", n_resident=5) as engine:
        expected = weights_after(engine)
    with engine_with(base_folder, tmp_path / "b", n_resident=2) as engine:
        assert [memory_bytes(engine, model) > 0 for model in MODELS] == [False] * 3 + [True] * 2
        assert weights_after(engine) == expected
        base = engine._entries[MODELS[0]].model.base  # pyright: ignore[reportPrivateUsage]
        assert base is not None
        assert digest(base.state_dict().values()) == base_digest(base_folder)


def test_a_model_that_finds_no_room_on_disk_stays_and_fails_nobody(
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


def test_a_parked_model_can_be_closed_and_opened_again(base_folder: Path, tmp_path: Path) -> None:
    with engine_with(base_folder, tmp_path, n_resident=1) as engine:
        engine.close(MODELS[0])
        done(engine.open(MODELS[0], LORA, checkpoint_url=None, next_op=1))
        assert memory_bytes(engine, MODELS[0]) > 0
