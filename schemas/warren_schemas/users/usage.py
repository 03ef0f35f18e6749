"""What users and their runs have used, as the HTTP API has it.

`__all__` is what users of the SDK hold; `warren` exports it as it is.
"""

from typing import Literal

from warren_schemas.base import Frozen
from warren_schemas.config import NonNegativeFloat, NonNegativeInt
from warren_schemas.ids import RunId

__all__ = ["UsageView"]

UsageBy = Literal["run", "user", "day"]


class UsageView(Frozen):
    """What one run, one user or all of one day have used.

    A GPU-second is one GPU at work for a second. What ran for several at once is divided among them, and
    a worker without a GPU counts as one GPU.
    """

    user: str | None = None
    """Null where it is of several."""
    run: RunId | None = None
    """Also one that was deleted; null where it is of several, or of a base model that Tinker's clients sampled from."""
    name: str | None = None
    """Of the run, where it is still there."""
    day: str | None = None
    """As 2026-11-23, UTC; null where it is of several."""
    training_gpu_s: NonNegativeFloat = 0.0
    sampling_gpu_s: NonNegativeFloat = 0.0
    n_tokens_trained: NonNegativeInt = 0
    """Tokens that a loss was computed over, each time anew."""
    n_tokens_sampled: NonNegativeInt = 0
    """In episodes, and for Tinker's clients; by whoever has asked for them, also of another owner's run."""
    n_episodes: NonNegativeInt = 0
    """Completed ones."""
    stored_bytes: NonNegativeInt | None = None
    """Of checkpoints and policies, now; null for a day."""


class UsageList(Frozen):
    usage: tuple[UsageView, ...]
    """Runs and days newest first, users by name."""
