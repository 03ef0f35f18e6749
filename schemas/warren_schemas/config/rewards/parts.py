"""All parts of a reward together: what their metrics are called, and whether they are a rubric."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from warren_schemas.config.rewards.groups import (
    GroupFunctionReward,
    GroupJudgeReward,
    GroupServiceReward,
)
from warren_schemas.config.rewards.rubric import (
    CodeReward,
    FunctionReward,
    JudgeReward,
    OwnReward,
    ServiceReward,
)

AnyReward = Annotated[
    OwnReward
    | FunctionReward
    | ServiceReward
    | CodeReward
    | JudgeReward
    | GroupFunctionReward
    | GroupServiceReward
    | GroupJudgeReward,
    Field(discriminator="kind"),
]


def name_of(part: AnyReward, number: int) -> str:
    """What its metric is called, behind `reward/`."""
    if part.name is not None:
        return part.name
    if isinstance(part, FunctionReward | GroupFunctionReward):
        return part.function.rpartition(":")[2]
    return part.kind if isinstance(part, OwnReward) else f"{part.kind}{number}"


def faults(parts: Sequence[AnyReward]) -> list[str]:
    """Why these parts are no rubric; each begins with the number of a part."""
    found: list[str] = []
    names: dict[str, int] = {}
    for number, part in enumerate(parts):
        name = name_of(part, number)
        if name in names:
            found.append(
                f"{number}: its metric reward/{name} is that of part {names[name]}, too; give it a name of its own"
            )
        names[name] = number
    if parts and not any(part.weight for part in parts):
        found.append("0: every part has the weight 0, so no reward would be given; raise one")
    return found
