"""What becomes of a group in which an episode fails."""

from typing import Annotated, Literal

from pydantic import Field

from warren_schemas.config.numbers import NonNegativeInt
from warren_schemas.config.written import Config

MAX_GROUP_SIZE = 1024
"""A group starts as a whole, and other runs wait while its episodes are made: 0.1 s for this many."""

GroupSize = Annotated[int, Field(ge=2, le=MAX_GROUP_SIZE)]


class AllMembers(Config):
    """Failed episodes are tried again; a group is trained on whole or not at all."""

    kind: Literal["all"] = "all"


class Quorum(Config):
    """Nothing is tried again: a group is trained on without those that failed, if they are few.

    An episode that passes its deadline has failed like any other, so no group waits for a straggler
    longer than `limits.episode_s`.
    """

    kind: Literal["quorum"] = "quorum"
    max_failed_members: NonNegativeInt = 1
    """A group in which more fail is dropped at once."""


class Retry(Config):
    """Failed episodes are tried again; a group is trained on without those that fail for good."""

    kind: Literal["retry"] = "retry"


GroupPolicy = Annotated[AllMembers | Quorum | Retry, Field(discriminator="kind")]
