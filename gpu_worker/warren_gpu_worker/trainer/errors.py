"""What can be wrong with an op, said so that a person can do something about it."""

import errno

import torch

_NO_MEMORY = ("can't allocate memory", "not enough memory", "out of memory")


class OpError(ValueError):
    """The op can't be applied as it is; says what is wrong and what would help."""


def reason_of(error: Exception) -> str:
    """One sentence with a hint, for any error of an op."""
    text = str(error)
    if isinstance(error, OpError):
        return text
    if isinstance(error, MemoryError | torch.OutOfMemoryError) or (
        isinstance(error, RuntimeError) and any(sign in text for sign in _NO_MEMORY)
    ):
        return (
            "out of memory; start the GPU worker with a smaller --micro-batch-tokens, or make"
            f" sequences shorter ({_first_line(text)})"
        )
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"no space left where checkpoints are kept; make room and save again ({error})"
    return f"{type(error).__name__}: {error}"


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0] or "no details"
