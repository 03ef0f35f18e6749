"""What a run knows of the levels or tasks of a curriculum."""

from typing import Self

from pydantic import BaseModel, ConfigDict


class Estimates(BaseModel):
    """Counts of episodes by level or task; older ones count less (`Curriculum.half_life_groups`)."""

    model_config = ConfigDict(extra="forbid")

    solved: list[float]
    played: list[float]

    @classmethod
    def none(cls, n: int) -> Self:
        """Of which nothing was played."""
        return cls(solved=[0.0] * n, played=[0.0] * n)
