"""What requests bring, checked at the border."""

from typing import Annotated

from pydantic import Field, JsonValue

from warren_schemas.base import Frozen
from warren_schemas.config.numbers import Name, NonNegativeInt

EXACT_IN_JSON = 2**53


class Begin(Frozen):
    """What an episode is made from."""

    split: Name = "train"
    task: NonNegativeInt = 0
    seed: Annotated[int, Field(ge=0, lt=EXACT_IN_JSON)]
    member: NonNegativeInt = 0
    level: NonNegativeInt | None = None
    config: dict[str, JsonValue] = Field(default_factory=dict)


class Act(Frozen):
    turn: Annotated[int, Field(ge=1)]
    action: str
