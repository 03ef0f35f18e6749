"""What can be wrong with an op, said so that a person can do something about it."""

import errno

from safetensors import SafetensorError

from warren_gpu_worker.device_errors import first_line, is_out_of_memory
from warren_schemas.ids import ModelId

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class OpError(ValueError):
    """The op can't be applied as it is; says what is wrong and what would help."""


class CheckpointError(OpError):
    """The checkpoint is damaged or belongs to something else; says what."""


class RankFailed(OpError):
    """The op is as it should be, and a rank could not apply it; raised by every rank for what one of them found."""


class OpDiskFull(RankFailed):
    """The op would have gone well with more space."""


class PassTooLarge(RuntimeError):
    """Smaller passes may fit, but not in this process: part of the gradient is there already, or other
    ranks wait."""

    def __init__(self, max_tokens: int, error: Exception) -> None:
        super().__init__(reason_of(error))
        self.max_tokens = max_tokens
        """Most tokens of a pass that may fit."""


class OpTooLarge(RuntimeError):
    """This process has no memory for an op and can't go on: half a gradient is there, or other ranks wait."""

    def __init__(
        self, model: ModelId, number: int, reason: str, max_tokens: int | None = None
    ) -> None:
        super().__init__(f"op {number} of {model}: {reason}")
        self.model, self.number, self.reason = model, number, reason
        self.max_tokens = max_tokens
        """Most tokens of a pass that may fit; None: it can't be cut."""


def reason_of(error: Exception) -> str:
    """One sentence with a hint, for any error of an op."""
    text = str(error)
    if isinstance(error, OpError):
        return text
    if is_out_of_memory(error):
        return (
            "out of memory; start the GPU worker with a smaller --micro-batch-tokens, or make"
            f" sequences shorter ({first_line(text)})"
        )
    if is_disk_full(error):
        return (
            "no space left where checkpoints are kept; free some, or keep fewer by"
            f" checkpoint.keep_last, and go on from the one before ({first_line(text)})"
        )
    return f"{type(error).__name__}: {error}"


def opening_reason_of(error: Exception) -> str:
    """The same of a model that can't be opened."""
    if is_out_of_memory(error):
        return (
            "out of memory while it was loaded; leave it more by a smaller --gpu-memory-share where vLLM has the same GPU, or"
            f" spread it by --devices ({first_line(error)})"
        )
    return str(error)


def is_disk_full(error: Exception) -> bool:
    """Whether files did not fit; with more space the same op would have gone well."""
    if isinstance(error, OpDiskFull):
        return True
    if isinstance(error, SafetensorError):  # which has the number in its text alone
        return any(f"os error {number}" in str(error) for number in _NO_SPACE)
    return isinstance(error, OSError) and error.errno in _NO_SPACE
