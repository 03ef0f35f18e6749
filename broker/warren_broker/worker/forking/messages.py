"""What a supervisor and its fork server say to each other: one message a packet.

With `Fork` come descriptors: the child's end of its connection, then, if there is one, where it prints to. With
`Forked`, which the child says itself once it leads its session, comes one that stands for it (a pidfd).
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

PACKET_BYTES = 64 * 1024
"""No message is longer."""


class _Message(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Fork(_Message):
    kind: Literal["fork"] = "fork"
    id: int
    """Of the process, for whoever asked: greater than all before."""
    module: str
    """Imported, and its `main` called."""
    name: str
    variables: dict[str, str]
    """Of its environment, besides the fork server's own."""


class Reap(_Message):
    kind: Literal["reap"] = "reap"
    id: int


class Forked(_Message):
    kind: Literal["forked"] = "forked"
    id: int
    pid: int


class Refused(_Message):
    """Nothing was forked: the system has no room for it."""

    kind: Literal["refused"] = "refused"
    id: int
    reason: str


class Exited(_Message):
    """It is not reaped before that is asked for."""

    kind: Literal["exited"] = "exited"
    id: int
    exit_code: int
    """Negative for a signal."""


ORDER: TypeAdapter[Fork | Reap] = TypeAdapter(Annotated[Fork | Reap, Field(discriminator="kind")])
REPORT: TypeAdapter[Forked | Refused | Exited] = TypeAdapter(
    Annotated[Forked | Refused | Exited, Field(discriminator="kind")]
)
