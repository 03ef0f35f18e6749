"""What the API server says of a pod, as far as a sandbox needs it. What else it says is passed over."""

from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

_HOPELESS = frozenset(
    {
        "ErrImageNeverPull", "ErrImagePull", "ImagePullBackOff", "ImageInspectError", "InvalidImageName",
        "CreateContainerConfigError", "CreateContainerError", "RunContainerError",
    }
)  # fmt: skip
"""Why a container waits that won't run."""


class _Told(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="ignore", frozen=True)


class Reason(_Told):
    reason: str = ""
    message: str = ""

    def __str__(self) -> str:
        return ": ".join(filter(None, (self.reason, self.message.strip())))


class Ending(Reason):
    exit_code: int
    finished_at: datetime | None = None


class Condition(Reason):
    type: str
    status: str


class Running(_Told):
    pass


class State(_Told):
    running: Running | None = None
    waiting: Reason | None = None
    terminated: Ending | None = None


class Container(_Told):
    state: State = Field(default_factory=State)


class Status(Reason):
    phase: str = "Pending"
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[Container, ...] = ()


class Metadata(_Told):
    name: str
    creation_timestamp: datetime
    deletion_timestamp: datetime | None = None


class Pod(_Told):
    metadata: Metadata
    status: Status = Field(default_factory=Status)

    @property
    def is_running(self) -> bool:
        return any(state.running for state in self._states)

    @property
    def has_ended(self) -> bool:
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def ended_at(self) -> datetime | None:
        """When the last of its containers ended, by its node's clock; None while one has not, or nobody knows."""
        ends = [end.finished_at for end in self._endings if end.finished_at is not None]
        return max(ends) if self.has_ended and ends else None

    @property
    def is_leaving(self) -> bool:
        """Somebody deletes it: its node is drained, its place is needed, or a person wants it gone."""
        return self.metadata.deletion_timestamp is not None

    @property
    def is_hopeless(self) -> bool:
        """It will never run."""
        waits = any(state.waiting and state.waiting.reason in _HOPELESS for state in self._states)
        return waits or self.has_ended or self.is_leaving

    @property
    def was_ended_within(self) -> bool:
        """By what ran in it: it took too much memory, or brought down our supervisor, which else ends well."""
        is_clusters = self.is_leaving or bool(self.status.reason)
        return not is_clusters and any(end.exit_code for end in self._endings)

    def __str__(self) -> str:
        """What there is to say of its state, for a person."""
        deleted = ["it is being deleted"] if self.is_leaving else []
        waits = [str(state.waiting) for state in self._states if state.waiting]
        ends = [f"{end}, exit code {end.exit_code}" for end in self._endings]
        lacks = [
            str(each)
            for each in self.status.conditions
            if (each.status, each.type) in (("False", "PodScheduled"), ("True", "DisruptionTarget"))
        ]
        told = filter(None, (str(self.status), *deleted, *waits, *ends, *lacks))
        return "; ".join((f"it is {self.status.phase}", *told))

    @property
    def _states(self) -> list[State]:
        return [container.state for container in self.status.container_statuses]

    @property
    def _endings(self) -> list[Ending]:
        return [state.terminated for state in self._states if state.terminated]


class Pods(_Told):
    items: tuple[Pod, ...]


class Event(_Told):
    """Of a watch."""

    type: str
    object: Pod
