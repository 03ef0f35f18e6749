"""Sequences that two devices compute between them: the same gradients and answers as on one."""

from collections.abc import Generator, Sequence
from pathlib import Path

import numpy as np
import pytest
from tests.support.losses import OBJECTIVES, TOKEN_LOSSES, Row, RowLoss
from tests.support.ranked_gradients import Start, moved
from tests.support.trainer import (
    BASE,
    FULL,
    LORA,
    MILD,
    MODEL,
    SPECS_WITH_CRITIC,
    TokenLoss,
    apply_all,
    done,
    engine_for,
    failed,
    forward_backward,
    opened,
    optim_step,
    random_batch,
    relative_error,
    sampled_batch,
    sequences,
)
from tests.support.trainer_ranks import RankedTrainer, ranked_trainer
from torch import Tensor
from transformers import Qwen3Config

from warren_gpu_worker.settings import GpuWorkerSettings
from warren_gpu_worker.trainer.child.engine import Engine
from warren_gpu_worker.trainer.training.sequence_parallel import why_not_split
from warren_schemas.config import CrossEntropyLoss, KlPenalty, LoraUpdate, Loss, PpoLoss
from warren_schemas.token_batch import TokenBatch
from warren_schemas.training import CriticTerm, Forward, ForwardBackward, ModelSpec, OpBody

BUDGET = 10
"""Of each device: half of a pass."""
ONE, SEVERAL = (13,), (5, 12, 3, 9, 1, 12)
"""Cut in the middle; cut between, in the middle, and where nothing is trained on."""


def settings_for(base_folder: Path, folder: Path, **fields: object) -> GpuWorkerSettings:
    return GpuWorkerSettings.model_validate(
        {
            "base_models": {BASE: str(base_folder)},
            "checkpoint_url": str(folder),
            "device": "cpu",
            "devices": 2,
            "split_sequences": True,
            "micro_batch_tokens": BUDGET,
            **fields,
        }
    )


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("split")


@pytest.fixture(scope="module")
def pair(base_folder: Path, checkpoints: Path) -> Generator[RankedTrainer]:
    with ranked_trainer(settings_for(base_folder, checkpoints)) as pair:
        yield pair


@pytest.fixture(scope="module", params=[FULL, LORA], ids=["full", "lora"])
def start(
    request: pytest.FixtureRequest, pair: RankedTrainer, base_folder: Path, checkpoints: Path
) -> Start:
    return moved(request.param, pair, alone(base_folder, checkpoints / "alone"))


def alone(base_folder: Path, folder: Path) -> Engine:
    return engine_for(base_folder, folder, micro_batch_tokens=2 * BUDGET)


def check_gradient(start: Start, lengths: Sequence[int], loss: Loss, token_loss: TokenLoss) -> None:
    def loss_of(row: Row) -> Tensor:
        return token_loss(row.logprobs_T, row.sampler_T, row.weights_T).sum()

    batch = sampled_batch(start.plain, 1, lengths, MILD)
    found = start.gradient_on_two(forward_backward(batch, loss, temperature=MILD))
    assert relative_error(found, start.gradient_in_float64(batch, loss_of)) <= 1e-6


def nll(logprobs_T: Tensor, _: Tensor, weights_T: Tensor) -> Tensor:
    return -weights_T * logprobs_T


@pytest.mark.parametrize(
    "lengths", [pytest.param(ONE, id="one"), pytest.param(SEVERAL, id="several")]
)
def test_gradient_equals_the_float64_reference(start: Start, lengths: Sequence[int]) -> None:
    check_gradient(start, lengths, CrossEntropyLoss(), nll)


@pytest.mark.storm
@pytest.mark.thorough
@pytest.mark.parametrize(("loss", "token_loss"), TOKEN_LOSSES)
def test_gradient_of_every_loss(start: Start, loss: Loss, token_loss: TokenLoss) -> None:
    check_gradient(start, SEVERAL, loss, token_loss)


@pytest.mark.storm
@pytest.mark.thorough
@pytest.mark.parametrize(("options", "loss_of"), OBJECTIVES)
def test_gradient_of_every_objective(
    start: Start, options: dict[str, object], loss_of: RowLoss
) -> None:
    batch = sampled_batch(start.plain, 1, SEVERAL, MILD)
    fields = {"loss": PpoLoss(), "batch": batch, "temperature": MILD, **options}
    found = start.gradient_on_two(ForwardBackward.model_validate(fields))
    assert relative_error(found, start.gradient_in_float64(batch, loss_of)) <= 1e-6


def asked(spec: ModelSpec, batch: TokenBatch) -> list[OpBody]:
    """Everything that an op can ask for, of a model that has moved."""
    options: dict[str, object] = {
        "loss": PpoLoss(),
        "batch": batch,
        "return_logprobs": True,
        "critic": CriticTerm(),
    }
    if isinstance(spec.update, LoraUpdate):
        options["kl"] = KlPenalty()
    return [
        forward_backward(random_batch(99), CrossEntropyLoss()),
        optim_step(eps=1.0, clip_norm=1.0),
        Forward.model_validate(options),
        ForwardBackward.model_validate(options),
        optim_step(),
    ]


@pytest.mark.parametrize("spec", SPECS_WITH_CRITIC)
def test_answers_are_those_of_one_rank(
    pair: RankedTrainer, base_folder: Path, tmp_path: Path, spec: ModelSpec
) -> None:
    """Metrics and logprobs, once each; also of rows with nothing to train on."""
    batch = random_batch(3, (9, 12, 1, 7, 14))
    mask_N = batch.mask_N.copy()
    mask_N[sequences(batch)[1]] = mask_N[sequences(batch)[4]] = 0
    ops = asked(spec, batch.model_copy(update={"mask_N": mask_N}))
    two = apply_all(opened(pair, spec), ops)
    one = apply_all(opened(alone(base_folder, tmp_path), spec), ops)
    for found, expected in zip(map(done, two), map(done, one), strict=True):
        assert found.metrics == pytest.approx(expected.metrics, rel=1e-4, abs=1e-6)
        if expected.logprobs_N is not None:
            assert found.logprobs_N is not None
            np.testing.assert_allclose(found.logprobs_N, expected.logprobs_N, atol=2e-5)


@pytest.mark.storm
@pytest.mark.thorough
def test_activations_that_are_computed_again_are_the_same(
    base_folder: Path, tmp_path: Path
) -> None:
    ops = [forward_backward(random_batch(1, SEVERAL)), optim_step(eps=1.0)]
    fields = {"checkpoint_activations": True}
    with ranked_trainer(settings_for(base_folder, tmp_path, **fields)) as pair:
        two = [done(outcome).metrics for outcome in apply_all(opened(pair, LORA), ops)]
    one = apply_all(opened(alone(base_folder, tmp_path / "one"), LORA), ops)
    for found, expected in zip(two, one, strict=True):
        assert found == pytest.approx(done(expected).metrics, rel=1e-4)


@pytest.mark.storm
@pytest.mark.thorough
def test_a_model_whose_heads_do_not_divide_is_refused(base_folder: Path, tmp_path: Path) -> None:
    with ranked_trainer(settings_for(base_folder, tmp_path, devices=4)) as four:
        reason = failed(four.open(MODEL, LORA, checkpoint_url=None, next_op=1))
    assert f"sequences of {BASE} can't be split: its 2 key-value heads" in reason


def test_which_heads_can_be_shared_out() -> None:
    config = Qwen3Config(num_attention_heads=32, num_key_value_heads=8)
    assert why_not_split(config, 8) is None
    assert "its 8 key-value heads" in str(why_not_split(config, 16))
    assert "its 32 attention heads" in str(why_not_split(config, 3))


def test_the_option_needs_several_devices_and_packed_sequences(
    base_folder: Path, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match="split_sequences is for several devices"):
        settings_for(base_folder, tmp_path, devices=1)
    with pytest.raises(ValueError, match="split_sequences is for packed sequences"):
        settings_for(base_folder, tmp_path, pack_sequences=False)
