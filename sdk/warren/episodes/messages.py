"""What the process that hosts an episode and the process that plays it say to each other: a line of JSON each.

The connection is the lease: whoever hangs up, or dies, has given the episode back.
"""

from pydantic import Field

from warren_schemas.base import Frozen


class Offer(Frozen):
    """An episode that is to be played, and the model that plays it."""

    base_url: str
    root_url: str
    api_key: str = Field(repr=False)
    split: str
    index: int
    member: int
    seed: int


class Outcome(Frozen):
    """What became of it: a reward, or why there is none."""

    reward: float | None = None
    metrics: dict[str, float] = Field(default_factory=dict[str, float])
    failure: str | None = None
