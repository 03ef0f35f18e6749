"""What an action is in an environment of Gymnasium, and how one is read from a text.

choice   one of some, by its name or number (`Discrete`)
numbers  some, each within its range (`MultiDiscrete`, `MultiBinary`, `Box`): `0.5, -1`, or a list in JSON
words    a text (`Text`)

Invariant: what is read lies in the space.
"""

import math
import re
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from warren_env_worker.environments.text.environment import NoAction
from warren_schemas.base import Frozen

MAX_TOLD = 32
"""Ranges that are told one by one, and so many characters of a charset."""
_NUMBER = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d{1,3})?", re.ASCII)
_MARKS = "`'\"*"


class Choice(Frozen):
    kind: Literal["choice"]
    names: tuple[str, ...]

    def told(self) -> str:
        return f"Actions: {', '.join(self.names)}."

    def blank(self) -> str:
        return "NAME"

    def read(self, said: str) -> int:
        """Its number, from 0 on. Raises `NoAction`."""
        word = said.strip().strip(f".{_MARKS}").lower()
        names = [name.lower() for name in self.names]
        if word in names:
            return names.index(word)
        numbers = [str(number) for number in range(len(names))]
        digits = word.lstrip("0") or word[:1]
        if digits in numbers:
            return numbers.index(digits)
        raise NoAction(f"There is no such action. Say one of: {', '.join(self.names)}")


class Numbers(Frozen):
    kind: Literal["numbers"]
    low: tuple[float | None, ...]
    high: tuple[float | None, ...]
    """None: there is no bound."""
    is_whole: bool

    def told(self) -> str:
        many = len(self.low)
        kind = "whole number" if self.is_whole else "number"
        count = f"a {kind}" if many == 1 else f"{many} {kind}s, separated by commas"
        return f"An action is {count}{self._ranges()}."

    def blank(self) -> str:
        return "NUMBER" if len(self.low) == 1 else "NUMBERS"

    def read(self, said: str) -> list[float]:
        """In their order, a list in lists flattened. Raises `NoAction`."""
        parts = re.sub(r"[\[\](),;\s]+", " ", said.strip().strip(_MARKS)).split()
        if len(parts) != len(self.low) or not all(map(_NUMBER.fullmatch, parts)):
            raise NoAction(f"That is no action. {self.told()}")
        values = [float(part) for part in parts]
        bounds = zip(values, self.low, self.high, strict=True)
        if not all(self._fits(value, low, high) for value, low, high in bounds):
            raise NoAction(f"That is out of range. {self.told()}")
        return values

    def _fits(self, value: float, low: float | None, high: float | None) -> bool:
        is_within = (low is None or low <= value) and (high is None or value <= high)
        return is_within and math.isfinite(value) and (value.is_integer() or not self.is_whole)

    def _ranges(self) -> str:
        ranges = [_range(low, high) for low, high in zip(self.low, self.high, strict=True)]
        if len(set(ranges)) == 1:
            each = ", each" if len(ranges) > 1 and ranges[0] else ""
            return f"{each}{ranges[0]}"
        more = " …" if len(ranges) > MAX_TOLD else ""
        return ":" + ",".join(one or " any" for one in ranges[:MAX_TOLD]) + more


class Words(Frozen):
    kind: Literal["words"]
    shortest: int
    longest: int
    characters: str

    def told(self) -> str:
        some = self.characters
        of = f"{some[:MAX_TOLD]} …" if len(some) > MAX_TOLD else some
        return (
            f"An action is a text of {self.shortest} to {self.longest} characters, of these: {of}"
        )

    def blank(self) -> str:
        return "TEXT"

    def read(self, said: str) -> str:
        """Raises `NoAction`."""
        if not self.shortest <= len(said) <= self.longest or set(said) - set(self.characters):
            raise NoAction(f"That is no action. {self.told()}")
        return said


Space = Choice | Numbers | Words
SPACE: TypeAdapter[Space] = TypeAdapter(Annotated[Space, Field(discriminator="kind")])


def _range(low: float | None, high: float | None) -> str:
    if low is None:
        return "" if high is None else f" to {high:.9g}"
    return f" from {low:.9g}" + ("" if high is None else f" to {high:.9g}")
