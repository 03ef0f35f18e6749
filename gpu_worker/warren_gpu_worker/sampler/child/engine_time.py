"""What part of an engine's time a turn has taken, where one step serves many turns.

Invariant: each step's time is divided evenly among the turns that are in the engine by then, so the parts
of all turns add up to the time of the engine, whoever comes and goes meanwhile.
"""


class EngineTime:
    def __init__(self) -> None:
        self.per_turn_s = 0.0
        """What a turn would bear that was in the engine from the beginning; a turn's part is the difference
        between two looks at it."""

    def add(self, step_s: float, n_turns: int) -> None:
        """A step has taken so long, with so many turns in the engine."""
        self.per_turn_s += step_s / max(1, n_turns)
