"""The learning rate of each step.

Invariant: it is a function of the config and the number of the step alone, so a run that goes on
elsewhere goes on with the same rates. Where the owner sets other `limits.steps`, what is left of a falling
schedule falls to the new end.
"""

import math

from warren_schemas.config import OptimizerConfig, ScheduleKind


def learning_rate(optimizer: OptimizerConfig, step: int, n_steps: int) -> float:
    """The rate of `step` (from 0) of `n_steps`.

    A linear rise over `warmup_steps`, and then what the schedule says. A falling schedule would
    reach its floor with the step after the last, so the last one still moves the weights.
    """
    rise = min(1.0, (step + 1) / max(1, optimizer.warmup_steps))
    return optimizer.learning_rate * rise * _fall(optimizer, step, n_steps)


def _fall(optimizer: OptimizerConfig, step: int, n_steps: int) -> float:
    """Share of the full rate, from 1 after the rise down to the floor."""
    n_falling = max(1, n_steps - optimizer.warmup_steps)
    passed = min(1.0, max(0, step - optimizer.warmup_steps) / n_falling)
    match optimizer.schedule:
        case ScheduleKind.CONSTANT:
            return 1.0
        case ScheduleKind.LINEAR:
            left = 1.0 - passed
        case ScheduleKind.COSINE:  # Loshchilov and Hutter 2017, equation 5, one cycle
            left = 0.5 * (1.0 + math.cos(math.pi * passed))
    return optimizer.floor + (1.0 - optimizer.floor) * left
