"""Messages by which the members of a group are compared, once all of them have ended.

ScoreGroup  -> compare.<environment>   (coordinator to any env worker of their environment)
GroupScored -> results.<model>          (env worker back to the coordinator of the run)
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from warren_schemas.base import Frozen
from warren_schemas.envelope import Item
from warren_schemas.episode import Failed, SharedSpec, StopReason
from warren_schemas.transcript import ChatMessage


class GroupMember(Frozen):
    """What is compared of an episode that ended well."""

    member: int = Field(ge=0)
    messages: tuple[ChatMessage, ...]
    rewards: tuple[float | None, ...]
    metrics: dict[str, float]
    stop: StopReason


class ScoreGroup(Item):
    """Compare the members of a group, by their environment and by the parts that the `spec` of one names: a coordinator to the
    queue of their environment."""

    kind: ClassVar[str] = "score_group"
    schema_version: ClassVar[int] = 1
    spec: SharedSpec
    members: tuple[GroupMember, ...]
    by_environment: bool = False
    """The environment itself compares them; what it gives is added before any part is asked."""


class MemberReward(Frozen):
    member: int = Field(ge=0)
    reward: float
    metrics: dict[str, float] = Field(default_factory=dict)


class GroupRewards(Frozen):
    status: Literal["completed"] = "completed"
    members: tuple[MemberReward, ...]


class GroupScored(Item):
    """The answer, of an env worker to the results of the run's model."""

    kind: ClassVar[str] = "group_scored"
    schema_version: ClassVar[int] = 1
    spec: SharedSpec
    outcome: Annotated[GroupRewards | Failed, Field(discriminator="status")]
    worker: str
