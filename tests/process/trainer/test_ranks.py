# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
"""One model on two devices: the same gradients, the same files, the same errors as on one."""

import resource
import shutil
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
    seal_of,
    sequences,
    some_ops,
)
from tests.support.trainer_children import child_pid
from tests.support.trainer_ranks import RankedTrainer, ranked_trainer
from torch import Tensor

from warren_gpu_worker.settings import GpuWorkerSettings
from warren_gpu_worker.trainer.child.engine import Engine
from warren_schemas.config import CrossEntropyLoss, KlPenalty, LoraUpdate, Loss, PpoLoss
from warren_schemas.training import (
    CriticTerm,
    Forward,
    ForwardBackward,
    KeepReference,
    LoadState,
    ModelSpec,
    OpBody,
    OpFailed,
    PublishPolicy,
    SaveState,
)

BUDGET = 20
PACKED, UNPACKED, MIXED = (5, 9, 3, 4, 1, 5, 2, 6), (12, 11, 13), (5, 12, 3, 9, 1, 12)
"""Several rows in a micro-batch; one in each, and an odd number of them; both."""
UNEVEN = ModelSpec(base_model=BASE, update=LoraUpdate(rank=3, alpha=8.0))
"""A rank that two devices can't halve."""


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ranks")


@pytest.fixture(scope="module")
def pair(base_folder: Path, checkpoints: Path) -> Generator[RankedTrainer]:
    settings = GpuWorkerSettings(
        base_models={BASE: str(base_folder)},
        checkpoint_url=str(checkpoints),
        device="cpu",
        devices=2,
        micro_batch_tokens=BUDGET,
        hang_s=60.0,
    )
    with ranked_trainer(settings) as pair:
        yield pair


def alone(base_folder: Path, folder: Path) -> Engine:
    return engine_for(base_folder, folder, micro_batch_tokens=BUDGET)


@pytest.fixture(scope="module", params=[FULL, LORA], ids=["full", "lora"])
def start(
    request: pytest.FixtureRequest, pair: RankedTrainer, base_folder: Path, checkpoints: Path
) -> Start:
    return moved(request.param, pair, alone(base_folder, checkpoints / "alone"))


@pytest.mark.parametrize(
    "lengths", [pytest.param(PACKED, id="packed"), pytest.param(UNPACKED, id="unpacked")]
)
@pytest.mark.parametrize(("loss", "token_loss"), TOKEN_LOSSES)
def test_gradient_equals_the_float64_reference(
    start: Start, loss: Loss, token_loss: TokenLoss, lengths: Sequence[int]
) -> None:
    def loss_of(row: Row) -> Tensor:
        return token_loss(row.logprobs_T, row.sampler_T, row.weights_T).sum()

    batch = sampled_batch(start.plain, 1, lengths, MILD)
    found = start.gradient_on_two(forward_backward(batch, loss, temperature=MILD))
    assert relative_error(found, start.gradient_in_float64(batch, loss_of)) <= 1e-6


@pytest.mark.parametrize(("options", "loss_of"), OBJECTIVES)
def test_gradient_of_an_objective_equals_the_float64_reference(
    start: Start, options: dict[str, object], loss_of: RowLoss
) -> None:
    batch = sampled_batch(start.plain, 1, MIXED, MILD)
    fields = {"loss": PpoLoss(), "batch": batch, "temperature": MILD, **options}
    found = start.gradient_on_two(ForwardBackward.model_validate(fields))
    assert relative_error(found, start.gradient_in_float64(batch, loss_of)) <= 1e-6


@pytest.mark.parametrize("spec", SPECS_WITH_CRITIC)
def test_a_rank_without_rows_does_not_change_a_bit(
    pair: RankedTrainer, base_folder: Path, tmp_path: Path, spec: ModelSpec
) -> None:
    update = forward_backward(random_batch(1, (9,)))
    ops = [update.model_copy(update={"critic": CriticTerm()}), SaveState(name="lonely")]
    two, one = (
        apply_all(opened(trainer, spec), ops)[-1]
        for trainer in (pair, alone(base_folder, tmp_path))
    )
    assert seal_of(two) == seal_of(one)


@pytest.mark.parametrize("spec", [*SPECS_WITH_CRITIC, pytest.param(UNEVEN, id="uneven")])
def test_checkpoints_are_the_same_files_whatever_the_number_of_ranks(
    pair: RankedTrainer, base_folder: Path, tmp_path: Path, spec: ModelSpec
) -> None:
    """Saved by two and by one after it loaded that; and the other way round. Gradients too."""
    critic = CriticTerm() if spec.critic else None
    ops = [KeepReference(), *some_ops(7, seed=4, critic=critic), forward_backward(random_batch(1))]
    again = [SaveState(name="again"), optim_step()]
    for first, second in (
        (pair, alone(base_folder, tmp_path / "one")),
        (alone(base_folder, tmp_path / "two"), pair),
    ):
        saved = done(apply_all(opened(first, spec), [*ops, SaveState(name="end")])[-1])
        url = saved.checkpoint_url
        done(second.open(MODEL, spec, checkpoint_url=url, next_op=len(ops) + 2))
        outcomes = apply_all(second, again, first=len(ops) + 2)
        assert seal_of(outcomes[0]) == seal_of(saved)
        assert done(outcomes[1]).version == saved.version + 1


@pytest.mark.parametrize("spec", SPECS_WITH_CRITIC)
def test_one_rank_goes_on_where_two_stopped(
    pair: RankedTrainer, base_folder: Path, tmp_path: Path, spec: ModelSpec
) -> None:
    # AdamW with a small epsilon makes whole steps of what is nothing but rounding.
    window = [forward_backward(random_batch(3, (9, 12, 7))), optim_step(eps=1.0, clip_norm=1.0)]
    url = done(apply_all(opened(pair, spec), [*window * 2, SaveState(name="stop")])[-1])
    engine = alone(base_folder, tmp_path)
    done(engine.open(MODEL, spec, checkpoint_url=url.checkpoint_url, next_op=6))
    found = apply_all(engine, window * 2, first=6)
    whole = apply_all(opened(alone(base_folder, tmp_path / "whole"), spec), window * 4)
    for one, other in zip(found, whole[4:], strict=True):
        assert done(one).metrics == pytest.approx(done(other).metrics, rel=1e-4)


@pytest.mark.parametrize("spec", SPECS_WITH_CRITIC)
def test_answers_are_those_of_one_rank(
    pair: RankedTrainer, base_folder: Path, tmp_path: Path, spec: ModelSpec
) -> None:
    """Metrics of all rows, logprobs of all tokens; also of rows with nothing to train on."""
    batch = random_batch(3, (9, 12, 1, 7, 14))
    mask_N = batch.mask_N.copy()
    mask_N[sequences(batch)[1]] = mask_N[sequences(batch)[4]] = 0
    batch = batch.model_copy(update={"mask_N": mask_N})
    options: dict[str, object] = {
        "loss": PpoLoss(),
        "batch": batch,
        "return_logprobs": True,
        "critic": CriticTerm(),
    }
    if isinstance(spec.update, LoraUpdate):
        options["kl"] = KlPenalty()
    ops: list[OpBody] = [
        forward_backward(random_batch(99), CrossEntropyLoss()),
        optim_step(eps=1.0, clip_norm=1.0),
        Forward.model_validate(options),
        ForwardBackward.model_validate(options),
        optim_step(),
    ]
    two = apply_all(opened(pair, spec), ops)
    one = apply_all(opened(alone(base_folder, tmp_path), spec), ops)
    for found, expected in zip(map(done, two), map(done, one), strict=True):
        assert found.version == expected.version
        assert found.metrics == pytest.approx(expected.metrics, rel=1e-4, abs=1e-6)
        if expected.logprobs_N is not None:
            assert found.logprobs_N is not None
            np.testing.assert_allclose(found.logprobs_N, expected.logprobs_N, atol=2e-5)


def test_what_fails_on_one_rank_fails_on_both_and_the_model_lives_on(
    pair: RankedTrainer, checkpoints: Path
) -> None:
    """Found out before, by the metrics of one rank's rows, or by the one that reads and writes."""
    fine = forward_backward(random_batch(1, UNPACKED))
    stranger = random_batch(1).model_copy(update={"ids_N": random_batch(1).ids_N + 1000})
    logprobs_N = fine.batch.logprobs_N.copy()
    logprobs_N[sequences(fine.batch)[1]] = -400.0
    far = fine.batch.model_copy(update={"logprobs_N": logprobs_N})
    opened(pair, FULL)
    states = checkpoints / MODEL / "states"
    shutil.rmtree(states, ignore_errors=True)
    states.parent.mkdir(exist_ok=True)
    states.write_text("a file where a folder should be")
    ops: list[OpBody] = [
        forward_backward(stranger),
        optim_step(),
        forward_backward(far),
        optim_step(),
        LoadState(url=str(checkpoints / "nothing")),
        SaveState(name="end"),
        fine,
        optim_step(),
        PublishPolicy(),
    ]
    outcomes = apply_all(pair, ops)
    assert "outside the model's vocabulary" in failed(outcomes[0])
    assert "op 1: token id" in failed(outcomes[1])
    assert "infinite or not a number" in failed(outcomes[2])
    assert "op 3: " in failed(outcomes[3])
    assert "is not there" in failed(outcomes[4])
    assert "Error" in failed(outcomes[5])
    assert [o.is_users for o in outcomes[:6] if isinstance(o, OpFailed)] == [True] * 5 + [False]
    states.unlink()
    assert done(outcomes[7]).version == 1
    assert done(outcomes[8]).policy is not None


def test_both_wait_for_space_on_a_full_disk_and_go_on(pair: RankedTrainer) -> None:
    """What the first rank finds out while it writes, the other one must know: it would wait in vain."""

    def limit_files(size_bytes: int) -> None:
        for pid in (child_pid(rank) for rank in range(2)):
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (size_bytes, resource.RLIM_INFINITY))

    opened(pair, FULL)
    pair.free_disk = lambda: limit_files(resource.RLIM_INFINITY)
    limit_files(1000)
    assert done(apply_all(pair, [SaveState(name="fits-later")])[0]).checkpoint_url
    assert pair.n_waits_for_disk > 0
    outcomes = apply_all(pair, [forward_backward(random_batch(1)), optim_step()], first=2)
    assert done(outcomes[1]).version == 1


def test_a_model_that_cannot_be_opened_is_no_reason_to_die(pair: RankedTrainer) -> None:
    unknown = LORA.model_copy(update={"base_model": "nobody/knows"})
    reason = failed(pair.open(MODEL, unknown, checkpoint_url=None, next_op=1))
    assert "no base model nobody/knows" in reason
    assert "can't be next" in failed(pair.open(MODEL, LORA, checkpoint_url=None, next_op=5))
    opened(pair, LORA)
