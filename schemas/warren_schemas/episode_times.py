"""Where the seconds of an episode went."""

from typing import Self

from warren_schemas.base import Frozen
from warren_schemas.config.numbers import NonNegativeFloat


class EpisodeTimes(Frozen):
    """Where an episode's seconds went; each by the clock of the one process that measured it.

    What was under way when an episode moved to another env worker is known to nobody, and left out.
    """

    reset_s: NonNegativeFloat = 0.0
    """Resetting the environment, also to make it anew on another env worker."""
    sampler_wait_s: NonNegativeFloat = 0.0
    """From asking for a turn until it was there, less `sampling_s`: in queues, on the way, for weights."""
    sampling_s: NonNegativeFloat = 0.0
    """In samplers' engines."""
    sampling_gpu_s: NonNegativeFloat = 0.0
    """GPU-seconds of that: what engines did for many turns at once is divided among them."""
    step_s: NonNegativeFloat = 0.0
    """In the environment's answers to actions, the last one's grading included."""

    def plus(self, **seconds: float) -> Self:
        """Nothing is validated again: callers measure what they add."""
        more = {name: getattr(self, name) + value for name, value in seconds.items()}
        return self.model_copy(update=more)


NO_TIMES = EpisodeTimes()
