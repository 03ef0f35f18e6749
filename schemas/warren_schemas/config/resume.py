"""Going on where another run was."""

from typing import Annotated

from pydantic import Field

from warren_schemas.config.numbers import Name
from warren_schemas.text.written import Config


class ResumeFrom(Config):
    """A checkpoint of one of your runs: weights, optimizer state, step, and position in the tasks."""

    run: Name
    """Id of the run that saved it."""
    checkpoint: Annotated[str, Field(pattern=r"^(step|sft)-[0-9]{6,}$")] | None = None
    """Its name, for example `step-000040`; null takes the newest. `limits.steps` is still the total: with
    100 steps, 60 remain."""
