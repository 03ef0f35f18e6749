"""What trainers told of several ops, put together as the names say, in as much room as one op takes.

`name:sum` adds up, of `name:max` the largest counts, and whatever else is a mean, weighted by `tokens:sum`.
"""

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, Field

TOKENS = "tokens:sum"


class ToldMetrics(BaseModel):
    model_config = ConfigDict(extra="forbid")

    values: dict[str, float] = Field(default_factory=dict[str, float])
    """Of a mean: the sum of its values, each times its weight."""
    weights: dict[str, float] = Field(default_factory=dict[str, float])
    """Of means."""

    def add(self, told: Mapping[str, float]) -> None:
        """Of one op more."""
        weight = told.get(TOKENS, 1.0)
        for name, value in told.items():
            if name.endswith(":max"):
                self.values[name] = max(value, self.values.get(name, value))
            elif name.endswith(":sum"):
                self.values[name] = self.values.get(name, 0.0) + value
            else:
                self.values[name] = self.values.get(name, 0.0) + value * weight
                self.weights[name] = self.weights.get(name, 0.0) + weight

    def merged(self) -> dict[str, float]:
        """Without means of nothing."""
        return {
            name: value / self.weights[name] if name in self.weights else value
            for name, value in self.values.items()
            if self.weights.get(name) != 0.0
        }
