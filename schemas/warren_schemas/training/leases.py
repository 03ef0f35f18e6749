"""How a model comes to a trainer and leaves it: jobs, grants, orders."""

from typing import Annotated, ClassVar

from pydantic import Field

from warren_schemas.base import QueuePart
from warren_schemas.envelope import Item
from warren_schemas.ids import ModelId, WorkerId
from warren_schemas.training.model import ModelSpec

__all__ = [
    "CloseModel",
    "DeleteModel",
    "Job",
    "JobTaken",
    "KeepForJob",
    "LoadBaseModel",
    "OpenModel",
]


class Job(Item):
    """A model wants a trainer -> jobs.<lora or full>.<base model>, or of several GPUs
    jobs.<lora or full>-<number>.<base model>.

    A worker takes it while it has room, keeps that room, and says so with `JobTaken`; the grant follows.
    """

    kind: ClassVar[str] = "job"
    schema_version: ClassVar[int] = 1
    model: ModelId
    epoch: Annotated[int, Field(ge=1)]
    """Of the lease that whoever takes the job is granted."""
    spec: ModelSpec
    owner: str = ""


class JobTaken(Item):
    """A worker keeps room for a job -> results.<model>; the answer is `OpenModel`, or `CloseModel` if somebody
    else was first."""

    kind: ClassVar[str] = "job_taken"
    schema_version: ClassVar[int] = 1
    model: ModelId
    epoch: Annotated[int, Field(ge=1)]
    worker: WorkerId
    late_after: Annotated[int, Field(ge=1)] | None = None
    """The worker has had this epoch of the model already, so it keeps no room."""


class OpenModel(Item):
    """The gateway grants the lease of a model to the worker that took its job -> trainer.<worker>.

    The worker loads `checkpoint_url` (or makes the model from its spec), answers number 0, and then
    applies the ops of `train.<model>.<epoch>` from `next_op` on.
    """

    kind: ClassVar[str] = "open_model"
    schema_version: ClassVar[int] = 1
    model: ModelId
    epoch: Annotated[int, Field(ge=1)]
    spec: ModelSpec
    checkpoint_url: str | None = None
    next_op: Annotated[int, Field(ge=1)] = 1
    owner: str = ""
    """Owners share a worker fairly, whatever number of models and ops each has."""


class DeleteModel(Item):
    """The model's run was deleted: so are all its checkpoints and policies -> file-cleanup."""

    kind: ClassVar[str] = "delete_model"
    schema_version: ClassVar[int] = 1
    model: ModelId


class KeepForJob(Item):
    """The scheduler keeps a worker for a job that needs a whole one -> trainer.<worker>.

    Until the next such order the worker takes no small jobs but this one, and drains.
    """

    kind: ClassVar[str] = "keep_for_job"
    schema_version: ClassVar[int] = 1
    model: ModelId | None = None
    """None: it is kept for nobody any more."""


class LoadBaseModel(Item):
    """A run waits for a base model that nobody holds -> trainer.<worker>.

    A GPU worker that is idle and may load it plays its roles anew with it, under other ids; any other drops the order.
    """

    kind: ClassVar[str] = "load_base_model"
    schema_version: ClassVar[int] = 1
    base_model: QueuePart


class CloseModel(Item):
    """The gateway takes the lease back -> trainer.<worker>."""

    kind: ClassVar[str] = "close_model"
    schema_version: ClassVar[int] = 1
    model: ModelId
    epoch: Annotated[int, Field(ge=1)]
