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
from torch import AcceleratorError
from torch.distributed import DistBackendError

from warren_gpu_worker.device_errors import fault_of, is_device_lost
from warren_gpu_worker.device_faults import Fault
from warren_gpu_worker.sampler.engines.start_failures import start_failure
from warren_gpu_worker.trainer.errors import opening_reason_of
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


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (AcceleratorError("CUDA error: uncorrectable ECC error encountered"), Fault.MEMORY_ERROR),
        (AcceleratorError("CUDA error: uncorrectable NVLink error"), Fault.MEMORY_ERROR),
        (AcceleratorError("CUDA error: CUDA-capable device(s) is/are busy or unavailable"), Fault.GONE),
        (AcceleratorError("CUDA error: no CUDA-capable device is detected"), Fault.GONE),
        (AcceleratorError("CUDA error: unknown error"), Fault.GONE),
        (DistBackendError("NCCL error: remote process exited or there was a network error"), Fault.HUNG_RANKS),
        (DistBackendError("Watchdog caught collective operation timeout: WorkNCCL(…)"), Fault.HUNG_RANKS),
        (AcceleratorError("CUDA error: device-side assert triggered"), Fault.KERNEL_FAILED),
        (RuntimeError("Worker failed with error 'CUDA error: an illegal memory access'"), Fault.KERNEL_FAILED),
    ],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
def test_a_fault_has_a_kind_and_says_what_to_do(error: Exception, kind: Fault) -> None:
    fault = fault_of(error)
    assert fault is not None
    assert fault.kind is kind
    assert str(fault).endswith(f"({error})")


@pytest.mark.parametrize("error", NO_MEMORY, ids=str)
def test_too_little_memory_is_no_fault_of_the_device(error: Exception) -> None:
    assert fault_of(error) is None
    assert "out of memory while it was loaded" in opening_reason_of(error)
    assert "--no-cuda-graphs" in start_failure(error)


@pytest.mark.parametrize(
    ("told", "advice"),
    [
        ("Free memory on device cuda:0 (1.2/79.1 GiB) on startup is less than …", "lower --gpu-memory-share"),
        ("No available memory for the cache blocks. Try increasing …", "raise --gpu-memory-share"),
        ("8.0 GiB KV cache is needed, which is larger than the available …", "lower --max-context"),
        ("CUDA error: uncorrectable ECC error encountered", "reset the GPU"),
    ],
)  # fmt: skip
def test_a_start_that_fails_for_the_device_says_what_to_change(told: str, advice: str) -> None:
    assert advice in start_failure(RuntimeError(told))
    assert start_failure(RuntimeError(told)).endswith(f"({told})")


def test_other_reasons_stay_as_they_are() -> None:
    assert start_failure(ValueError("no such model")) == "no such model"
    assert opening_reason_of(ValueError("no such model")) == "no such model"


def test_what_is_no_error_of_the_device_is_none() -> None:
    for error in (RuntimeError("expected scalar type Float"), ValueError("CUDA error"), OSError()):
        assert not is_device_lost(error)
        assert not Ranks().must_end(error)
