"""What becomes of a group in which an episode fails."""

from typing import Annotated, Literal

from pydantic import Field

from warren_schemas.config.numbers import NonNegativeInt
from warren_schemas.text.written import Config

MAX_GROUP_SIZE = 1024
"""A group starts as a whole, and other runs wait while its episodes are made: 0.1 s for this many."""

GroupSize = Annotated[int, Field(ge=2, le=MAX_GROUP_SIZE)]


class AllMembers(Config):
    """Failed episodes are retried; incomplete groups are dropped."""

    kind: Literal["all"] = "all"


class Quorum(Config):
    """Failed episodes are not retried: the group is trained on without them, if they are few.

    An episode that exceeds its time limit has failed too, so no group waits for a straggler longer
    than `limits.episode_s`.
    """

    kind: Literal["quorum"] = "quorum"
    max_failed_members: NonNegativeInt = 1
    """Maximum number of failed episodes in a group: with more it is dropped at once."""


class Retry(Config):
    """Failed episodes are retried; the group is trained on without those that fail every attempt."""

    kind: Literal["retry"] = "retry"


FailedMembers = Annotated[AllMembers | Quorum | Retry, Field(discriminator="kind")]
