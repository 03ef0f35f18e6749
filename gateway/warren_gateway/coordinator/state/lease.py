"""The lease of the run's model, as the coordinator sees it. Written by `trainer_lease` alone.

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
    deaf_trainer: WorkerId | None = Field(default=None, exclude=True)
    """It is alive and has not taken the last grant."""

    is_released: bool = False
    """It was given back because the run waits for an environment."""
    n_grants_in_vain: int = 0
    """Leases in a row that ended before a single new op was answered."""
    n_losses_in_vain: int = 0
    """The same of leases whose holder vanished."""
    op_at_grant: int = -1
