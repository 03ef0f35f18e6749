"""What happened to a device, by the errors of the libraries above it, and what a person can do about it.

Invariant: after any of these the process may never again compute on its device, so it ends, and another one takes its work;
a lack of memory is none of them (`device_errors.is_out_of_memory`), for something smaller has room. Importing this loads no
torch, for supervisors tell of faults and don't compute.
"""

from dataclasses import dataclass
from enum import StrEnum


class Fault(StrEnum):
    MEMORY_ERROR = "memory_error"
    """An error in the GPU's memory that it could not correct (ECC)."""
    GONE = "gone"
    """The driver no longer reaches the GPU."""
    HUNG_RANKS = "hung_ranks"
    """GPUs waited for each other in vain, or the links between them failed (NCCL)."""
    KERNEL_FAILED = "kernel_failed"
    """A kernel read where it may not, failed an assertion or was ended."""
    MACHINE_LOST = "machine_lost"
    """One of the machines over which vLLM is spread is gone, or its process has ended."""


SIGNS = {
    Fault.MEMORY_ERROR: ("uncorrectable", "ECC"),
    Fault.HUNG_RANKS: ("NCCL", "ncclSystemError", "collective operation timeout", "Watchdog"),
    Fault.GONE: (
        "no CUDA-capable device",
        "GPU is lost",
        "fallen off the bus",
        "busy or unavailable",
        "device unavailable",
        "system not yet initialized",
        "No CUDA GPUs are available",
        "driver shutting down",
        "unknown error",
    ),
}
"""What libraries say."""
_ADVICE = {
    Fault.MEMORY_ERROR: "the GPU's memory has an error that it can't correct (Xid 48, 63, 94 or 95): reset the GPU (nvidia-smi"
    " --gpu-reset) or reboot, and replace it if `nvidia-smi -q -d ECC,ROW_REMAPPER` shows more of them",
    Fault.GONE: "the driver has lost the GPU (`dmesg | grep Xid` says why; 79: it fell off the bus): reboot the machine; until"
    " then the worker tries again, and other workers take its models",
    Fault.HUNG_RANKS: "GPUs could not exchange what they computed: NCCL_DEBUG=INFO in the worker's environment says where,"
    " NCCL_P2P_DISABLE=1 goes around faulty links, and a larger --hang-s waits for slow ones",
    Fault.KERNEL_FAILED: "a kernel failed: CUDA_LAUNCH_BLOCKING=1 in the worker's environment makes its log say which one;"
    " another --attention-backend avoids vLLM's own",
    Fault.MACHINE_LOST: "a machine over which vLLM is spread is gone: its own log says why; the sampler goes on once `warren gpu-worker"
    " --join` runs there again, and other samplers take its turns until then",
}


@dataclass(frozen=True, slots=True)
class DeviceFault:
    kind: Fault
    details: str
    """What the library said."""

    def __str__(self) -> str:
        return f"{_ADVICE[self.kind]} ({self.details})"
