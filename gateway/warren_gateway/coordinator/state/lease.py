"""The lease of the run's model, as the coordinator sees it. Written by `lease` alone.

What is excluded stands in the model's row, or is learned anew by who takes the run over.
"""

from pydantic import BaseModel, ConfigDict, Field

from warren_schemas.ids import WorkerId


class TrainerLease(BaseModel):
    model_config = ConfigDict(extra="forbid")

    epoch: int = Field(default=0, exclude=True)
    holder: WorkerId | None = Field(default=None, exclude=True)
    """The trainer that applies the ops."""
    is_opened: bool = Field(default=False, exclude=True)
    """The holder has the model open."""
    seen_s: float = Field(default=0.0, exclude=True)
    """When the holder was last known to hold the lease (or was granted it)."""
    was_listed: bool = Field(default=False, exclude=True)
    """The holder's heartbeat has named this lease."""
    is_admitted: bool = Field(default=False, exclude=True)
    """The scheduler lets the run's job go to a trainer."""
    taken_by: WorkerId | None = Field(default=None, exclude=True)
    """The first trainer that keeps room for the job; the grant comes next."""

    loading_seen_s: float | None = Field(default=None, exclude=True)
    """When a worker was last known to load the base model, for a run that is starting meanwhile."""

    closed: set[tuple[WorkerId, int]] = Field(
        default_factory=set[tuple[WorkerId, int]], exclude=True
    )
    """Old holders that were told to let go, with their epochs."""

    leaves_after_op: int | None = Field(default=None, exclude=True)
    """The checkpoint with which the model leaves a trainer that is drained; 0 where there is nothing to save."""

    is_job_sent: bool = False
    """The job of `epoch` is on its way to whichever trainer takes it."""
    is_held_back: bool = False
    """The scheduler was told that the model has nothing to do for a trainer."""
    is_released: bool = False
    """It was given back because the run waits for an environment."""
    n_grants_in_vain: int = 0
    """Leases in a row that ended before a single new op was answered."""
    n_losses_in_vain: int = 0
    """The same of leases whose holder vanished."""
    op_at_grant: int = -1
