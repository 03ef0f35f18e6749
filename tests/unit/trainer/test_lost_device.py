"""An error after which the device can't be used ends the process; others fail their op alone.

Here nothing has a device to lose, so the errors are raised where it would be noticed.
"""

from pathlib import Path

import pytest
import torch
from tests.support.failing_torch import FailingTorch, one_forward_raises
from tests.support.trainer import (
    LORA,
    MODEL,
    done,
    engine_for,
    failed,
    forward_backward,
    opened,
    optim_step,
    random_batch,
)

from warren_gpu_worker.device_errors import is_device_lost
from warren_gpu_worker.trainer.training.ranks import Ranks
from warren_schemas.ids import ModelId

OTHER = ModelId("model_other")
OP = forward_backward(random_batch(1))
UNCUT = forward_backward(random_batch(1, [9]))
"""One sequence, which no smaller passes help."""
LOST = [
    torch.AcceleratorError("CUDA error: an illegal memory access was encountered"),
    torch.AcceleratorError("CUDA error: device-side assert triggered"),
    RuntimeError("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm(...)`"),
    RuntimeError("cuDNN error: CUDNN_STATUS_EXECUTION_FAILED"),
    RuntimeError("Triton Error [CUDA]: an illegal memory access was encountered"),
]
NO_MEMORY = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
    torch.AcceleratorError("CUDA error: out of memory"),
    RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
]


@pytest.mark.parametrize("error", LOST, ids=str)
def test_a_lost_device_ends_the_process(
    base_folder: Path, tmp_path: Path, error: Exception
) -> None:
    engine = opened(opened(engine_for(base_folder, tmp_path), LORA), LORA, OTHER)
    with FailingTorch(error):
        with pytest.raises(type(error)):
            engine.apply_batched([(MODEL, 1, OP), (OTHER, 1, OP)])
        with pytest.raises(type(error)):
            engine.apply(MODEL, 1, OP)
        with pytest.raises(type(error)):
            engine.open(MODEL, LORA, checkpoint_url=None, next_op=1)


@pytest.mark.parametrize("error", NO_MEMORY, ids=str)
def test_no_memory_fails_the_op_and_ends_nothing(
    base_folder: Path, tmp_path: Path, error: Exception
) -> None:
    engine = opened(opened(engine_for(base_folder, tmp_path), LORA), LORA, OTHER)
    with one_forward_raises(error):
        assert "smaller --micro-batch-tokens" in failed(engine.apply(MODEL, 1, UNCUT))
    with one_forward_raises(error):
        for outcome in engine.apply_batched([(MODEL, 2, OP), (OTHER, 1, OP)]):
            done(outcome)
    done(engine.apply(OTHER, 2, optim_step()))


def test_what_is_no_error_of_the_device_is_none() -> None:
    for error in (RuntimeError("expected scalar type Float"), ValueError("CUDA error"), OSError()):
        assert not is_device_lost(error)
        assert not Ranks().must_end(error)
