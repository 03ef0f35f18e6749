"""What a resource server answers, checked at the border. Keys that we don't know are the server's own."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, TypeAdapter, ValidationError

MAX_TOLD_CHARS = 500


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    content: bytes

    @property
    def text(self) -> str:
        return self.content.decode(errors="replace")

    @property
    def is_error(self) -> bool:
        return self.status >= 400


class _Answer(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class Verdict(_Answer):
    """Of `verify`. What the row holds comes back with it."""

    model_config = ConfigDict(extra="allow", frozen=True)

    reward: FiniteFloat
    failure: str | None = Field(default=None, alias="_ng_failure_class")
    """Nothing was judged, because a judge can't be had, say; and the reward means nothing."""
    reward_components: dict[str, FiniteFloat] | None = None

    def numbers(self, row: Mapping[str, Any]) -> dict[str, float]:
        """What the server found out besides, as far as it is numbers; and what is in the row is no news."""
        found = {**(self.model_extra or {}), **(self.reward_components or {})}
        return _numbers({name: value for name, value in found.items() if name not in row})


class ToolOutput(_Answer):
    output: str


class Info(_Answer):
    model_config = ConfigDict(extra="allow", frozen=True)

    tool_outputs: tuple[ToolOutput, ...] = ()

    @property
    def numbers(self) -> dict[str, float]:
        return _numbers(self.model_extra or {})


class Observed(_Answer):
    """Of `reset` of a `GymnasiumServer`."""

    observation: str | None = None


class Stepped(Observed):
    """Of its `step`."""

    reward: FiniteFloat = 0.0
    terminated: bool = False
    truncated: bool = False
    info: Info = Info()


class _Where(_Answer):
    loc: tuple[str | int, ...] = ()
    msg: str = ""


class _Refusal(_Answer):
    detail: str | tuple[_Where, ...]


VERDICT = TypeAdapter(Verdict)
OBSERVED = TypeAdapter(Observed)
STEPPED = TypeAdapter(Stepped)


def reason(answer: Answer) -> str | None:
    """Why the server refuses what it was sent, in its framework's form; None if it says nothing of that form."""
    try:
        detail = _Refusal.model_validate_json(answer.content).detail
    except ValidationError:
        return None
    if isinstance(detail, str):
        return detail[:MAX_TOLD_CHARS]
    told = [f"{'.'.join(map(str, each.loc))}: {each.msg}" for each in detail]
    return "; ".join(told)[:MAX_TOLD_CHARS] or None


def _numbers(found: Mapping[str, object]) -> dict[str, float]:
    return {
        name: float(value)
        for name, value in found.items()
        if isinstance(value, int | float) and math.isfinite(value)
    }
