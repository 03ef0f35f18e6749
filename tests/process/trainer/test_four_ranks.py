"""One model on two devices, on four and on one, one after the other: the files are the same, and so is what is learned."""

from pathlib import Path

import pytest
from tests.support.trainer import (
    BASE,
    MODEL,
    SPECS_WITH_CRITIC,
    apply_all,
    done,
    engine_for,
    forward_backward,
    opened,
    optim_step,
    random_batch,
    seal_of,
    some_ops,
)
from tests.support.trainer_ranks import ranked_trainer

from warren_gpu_worker.settings import GpuWorkerSettings
from warren_gpu_worker.trainer.child.engine import Engine
from warren_schemas.training import CriticTerm, ModelSpec, SaveState

pytestmark = [pytest.mark.storm, pytest.mark.thorough]

BUDGET = 20


def settings_for(base_folder: Path, folder: Path, n_ranks: int) -> GpuWorkerSettings:
    return GpuWorkerSettings(
        base_models={BASE: str(base_folder)},
        checkpoint_url=str(folder / str(n_ranks)),
        device="cpu",
        devices=n_ranks,
        micro_batch_tokens=BUDGET,
    )


@pytest.mark.parametrize("spec", SPECS_WITH_CRITIC)
def test_saved_by_two_loaded_by_four_and_by_one(
    base_folder: Path, tmp_path: Path, spec: ModelSpec
) -> None:
    """With half a window's gradient in the checkpoint, and rows for some ranks only."""
    ops = [*some_ops(7, seed=4, critic=CriticTerm()), forward_backward(random_batch(1))]
    again = [SaveState(name="again"), forward_backward(random_batch(2)), optim_step(eps=1.0)]
    first = len(ops) + 2
    with ranked_trainer(settings_for(base_folder, tmp_path, 2)) as two:
        saved = done(apply_all(opened(two, spec), [*ops, SaveState(name="end")])[-1])
    with ranked_trainer(settings_for(base_folder, tmp_path, 4)) as four:
        done(four.open(MODEL, spec, checkpoint_url=saved.checkpoint_url, next_op=first))
        by_four = apply_all(four, again, first=first)
    one: Engine = engine_for(base_folder, tmp_path / "1", micro_batch_tokens=BUDGET)
    url = done(by_four[0]).checkpoint_url
    done(one.open(MODEL, spec, checkpoint_url=url, next_op=first + 1))
    by_one = apply_all(one, [SaveState(name="once-more"), *again[1:]], first=first + 1)
    assert seal_of(by_four[0]) == seal_of(saved)
    assert done(by_four[2]).metrics == pytest.approx(done(by_one[2]).metrics, rel=1e-4)
