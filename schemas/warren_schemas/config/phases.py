"""What happens before, between and after the steps of reinforcement learning."""

from typing import Self

from pydantic import model_validator

from warren_schemas.config.numbers import NonNegativeFloat, PositiveFloat, PositiveInt
from warren_schemas.text.written import Config


class SftConfig(Config):
    """Supervised fine-tuning on the environment's demonstrations, before reinforcement learning."""

    steps: PositiveInt = 100
    """SFT steps, counted separately from those of reinforcement learning."""
    episodes_per_step: PositiveInt = 32
    """Demonstrations in one step."""
    learning_rate: PositiveFloat = 1e-3
    """Peak learning rate: warmup over 20 steps, then linear decay to a tenth."""


class EvaluationConfig(Config):
    """Fresh episodes with one fixed policy version; every evaluation uses the same tasks."""

    episodes: PositiveInt = 256
    """Episodes per evaluation."""
    samples: PositiveInt = 1
    """Episodes of each task; they count among `episodes`. With several, pass@k can be told."""
    temperature: NonNegativeFloat = 0.0
    """Sampling temperature; 0 is greedy."""
    before: bool = True
    """Evaluate before reinforcement learning (and after SFT). Without any, there is one evaluation, `after`."""
    after: bool = True
    """Evaluate at the end; this is also what `every_steps` makes due at the last step."""
    every_steps: PositiveInt | None = None
    """Evaluate every this many steps, while training continues; null is off. Evaluations that fall due
    during another one wait, and use the policy of their own step."""

    @model_validator(mode="after")
    def _whole_tasks(self) -> Self:
        if self.episodes % self.samples:
            raise ValueError(
                f"episodes must be a multiple of samples, and {self.episodes} is none of {self.samples}"
            )
        if self.samples > 1 and self.temperature == 0:
            raise ValueError(
                "samples: at temperature 0 all samples of a task are alike; set temperature above 0, or"
                " leave samples out"
            )
        return self

    @model_validator(mode="after")
    def _is_ever(self) -> Self:
        if not self.before and not self.after and self.every_steps is None:
            raise ValueError(
                "nothing would ever be evaluated: before and after are false, and every_steps is null;"
                " switch one of them on, or leave evaluation out"
            )
        return self
