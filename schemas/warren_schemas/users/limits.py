"""How much of a gateway one user may have, as the HTTP API has it.

`__all__` is what users of the SDK hold; `warren` exports it as it is.
"""

from typing import Annotated

from pydantic import Field

from warren_schemas.base import Frozen
from warren_schemas.config import NonNegativeFloat
from warren_schemas.users.access import UserView

__all__ = ["LimitView", "Limits", "UserDetails"]

_Count = Annotated[int, Field(ge=0, le=1_000_000)]


class Limits(Frozen):
    """What is set for one user; null: as the gateway's options say."""

    runs_queued: _Count | None = None
    """Runs that wait for their start; whoever has as many is refused a further one."""
    runs_running: _Count | None = None
    """Runs that are at work at once; others wait in the queue."""
    episodes_in_flight: _Count | None = None
    """Episodes of all their runs that are played at once; runs share them evenly."""
    evaluated_models_per_hour: _Count | None = None
    """Base models that GPU workers load in an hour for their evaluations alone; a further evaluation waits."""
    gpu_weight: Annotated[float, Field(gt=0, le=1000)] | None = None
    """Share of the GPUs, compared with that of others who want some: 2 is twice that of 1."""
    stored_gib: Annotated[float, Field(ge=0, le=1e9)] | None = None
    """GiB of checkpoints, policies, data sets and adapters; at the limit, further runs are refused."""
    requests_per_s: Annotated[float, Field(ge=0.01, le=1_000_000)] | None = None
    """Requests a second for long; bursts may be as long as those of others."""


class LimitView(Frozen):
    """One limit of a user, as it is in force."""

    name: str
    """Of a field of `Limits`."""
    limit: NonNegativeFloat
    used: NonNegativeFloat | None = None
    """Now; null where it is not counted."""
    is_default: bool
    """Whether the gateway's options set it, and nobody for this user."""


class UserDetails(Frozen):
    user: UserView
    limits: tuple[LimitView, ...]
