"""Where episodes happen."""

from pydantic import Field, JsonValue

from warren_schemas.base import Frozen
from warren_schemas.config.numbers import Name, PositiveFloat, PositiveInt


class EnvironmentConfig(Frozen):
    """Where episodes happen."""

    name: Name
    """Name of an environment that an env worker offers."""
    config: dict[str, JsonValue] = Field(default_factory=dict)
    """Passed to the environment's constructor."""
    split: str = "train"
    """Which of the environment's tasks are trained on."""
    evaluation_split: str | None = None
    """None: evaluate on fresh tasks of `split`."""
    weight: PositiveFloat = 1.0
    """Share of the groups that this environment gets, relative to the others."""
    max_turns: PositiveInt = 32
    """An episode that is longer is cut (`truncated`)."""
