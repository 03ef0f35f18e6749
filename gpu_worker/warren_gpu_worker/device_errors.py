# pyright: reportUnknownMemberType=false
"""Errors of a device: too little memory, which something smaller has room in, and a device that is lost."""

import torch
from torch.distributed import DistError

from warren_gpu_worker.base_models.loading import chosen_device
from warren_gpu_worker.device_faults import SIGNS, DeviceFault, Fault

_NO_MEMORY = (
    "can't allocate memory",
    "not enough memory",
    "out of memory",
    "bad_alloc",
    "ALLOC_FAILED",
)
_DEVICE_LOST = ("CUDA error:", "CUDA driver error:", "cuDNN error:", "Triton Error [CUDA]:")
"""What is no `AcceleratorError`: of libraries above the driver, which mostly pass on its errors."""


def is_out_of_memory(error: Exception) -> bool:
    """Whether the device, or the host, had too little memory for what was computed."""
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or (
        isinstance(error, RuntimeError) and any(sign in str(error) for sign in _NO_MEMORY)
    )


def is_device_lost(error: Exception) -> bool:
    """Whether this process may never again compute on its device, whatever it is asked for.

    After an illegal access, a failed assertion or a hardware fault every later call has the same
    error until the process ends. The few errors of the device that leave it usable are taken for
    such, too, for another process is cheap; but a lack of memory is not.
    """
    is_of_device = isinstance(error, torch.AcceleratorError) or (
        isinstance(error, RuntimeError) and any(sign in str(error) for sign in _DEVICE_LOST)
    )
    return is_of_device and not is_out_of_memory(error)


def fault_of(error: Exception) -> DeviceFault | None:
    """None: the device has nothing to do with it, or too little memory."""
    is_of_device = is_device_lost(error)
    if not is_of_device and not isinstance(error, DistError):
        return None
    text = str(error)
    named = (kind for kind, signs in SIGNS.items() if any(sign in text for sign in signs))
    return DeviceFault(next(named, Fault.KERNEL_FAILED), first_line(text))


def check_device(device: str) -> None:
    """Compute something there. Raises what the device does: nobody should count on one that can't."""
    torch.ones(2, device=chosen_device(device)).sum().item()


def first_line(error: Exception | str) -> str:
    return str(error).strip().partition("\n")[0] or "no details"
