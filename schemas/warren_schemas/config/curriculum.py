"""Which of an environment's levels or tasks are trained on more often than others."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from warren_schemas.config.numbers import PositiveFloat
from warren_schemas.text.written import Config

SCORE_TEMPERATURE = 0.5
MAX_IN_CURRICULUM = 1024
"""An estimate of each is stored with every decision."""


class Curriculum(Config):
    """Levels or tasks that the policy solves sometimes are trained on more often than those that it always or never
    solves. Evaluations and demonstrations play all levels by turns."""

    over: Literal["levels", "tasks"] = "levels"
    """`levels`: the environment makes tasks of the level `ctx.level`, counted from 0; `tasks`: the first `n` tasks of the
    run, of the split's data or of the environment's own making, each played again and again."""
    n: Annotated[int, Field(ge=2, le=MAX_IN_CURRICULUM)]
    """How many levels there are, or how many tasks are used."""
    solved_at: float = 1.0
    """An episode solves its task if its reward is at least this."""
    uniform: Annotated[float, Field(gt=0, le=1)] = 0.2
    """Share of the draws in which all are as likely, so that none is forgotten; 1 draws without a curriculum."""
    score_temperature: PositiveFloat = SCORE_TEMPERATURE
    """How strongly all other draws prefer what is solved about half the time: with 1 they are in proportion to p (1 - p),
    p being the share that is solved; a lower value prefers it more."""
    half_life_groups: PositiveFloat = 4.0
    """After so many further groups of the same level or task, a group's outcome counts half."""

    @model_validator(mode="after")
    def _prefers_something(self) -> Self:
        if self.uniform == 1.0 and self.score_temperature != SCORE_TEMPERATURE:
            raise ValueError("score_temperature has no effect with uniform: 1; leave it out")
        return self
