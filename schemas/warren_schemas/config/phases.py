"""What happens before, between and after the steps of reinforcement learning."""

from warren_schemas.config.numbers import NonNegativeFloat, PositiveFloat, PositiveInt
from warren_schemas.config.written import Config


class SftConfig(Config):
    """Supervised steps on the environment's own demonstrations, before reinforcement learning."""

    steps: PositiveInt = 100
    """Supervised steps; they are counted apart from those of reinforcement learning."""
    episodes_per_step: PositiveInt = 32
    """Demonstrations in one step."""
    learning_rate: PositiveFloat = 1e-3
    """Highest step size; it rises over 20 steps and then falls linearly to a tenth."""


class EvaluationConfig(Config):
    """Fresh episodes with one fixed policy version; every evaluation sees the same tasks."""

    episodes: PositiveInt = 256
    """Episodes of one evaluation."""
    temperature: NonNegativeFloat = 0.0
    """0 takes the most probable token each time."""
    before: bool = True
    """Evaluate before reinforcement learning (and after SFT)."""
    after: bool = True
    """Evaluate at the end."""
    every_steps: PositiveInt | None = None
    """Evaluate after every so many steps, while training goes on; null is off."""
