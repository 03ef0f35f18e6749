"""Typed actions: the policy answers with JSON, and the environment gets a value of the type that it names.

warren up --env typed_actions:Treasure    # in this folder
warren env check typed_actions:Treasure
"""

import random
from typing import Literal

from pydantic import BaseModel, Field

from warren import StepResult
from warren.actions import ActionEnv
from warren.environment import Context


class Dig(BaseModel):
    """Look for the treasure in a square."""

    kind: Literal["dig"] = "dig"
    row: int = Field(ge=0, lt=4)
    column: int = Field(ge=0, lt=4)


class Ask(BaseModel):
    """Be told in which row or column it lies; a find is then worth less."""

    kind: Literal["ask"]
    about: Literal["row", "column"]


class Treasure(ActionEnv[Dig | Ask]):
    """A treasure lies in one of 16 squares. Each question costs a quarter of it."""

    name = "treasure"

    def reset(self, task: None, ctx: Context) -> str:
        self.row, self.column = ctx.rng.randrange(4), ctx.rng.randrange(4)
        self.value = 1.0
        return "A treasure lies in one of the squares 0 to 3 by 0 to 3. Dig, or ask first."

    def act(self, action: Dig | Ask) -> StepResult:
        if isinstance(action, Ask):
            self.value = max(self.value - 0.25, 0.0)
            return StepResult(f"{action.about} {getattr(self, action.about)}")
        is_found = (action.row, action.column) == (self.row, self.column)
        return StepResult(reward=self.value if is_found else 0.0, done=True)

    def demonstrate(self, rng: random.Random) -> str:
        return self.written(Dig(row=self.row, column=rng.randrange(4)))
