"""Where a run's trajectories come from."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from warren_schemas.config.numbers import Name, NonNegativeFloat, NonNegativeInt
from warren_schemas.text.written import Config


class LiveSource(Config):
    """The run's own policy plays episodes while it trains."""

    kind: Literal["live"] = "live"


class RecordedSource(Config):
    """A replay of another run's recorded trajectories, with the same groups in the same order."""

    kind: Literal["recorded"] = "recorded"
    run: Name
    """Id of the run that recorded them; it may still be running."""
    from_offset: NonNegativeInt | None = None
    """Start at this offset of the recording; null starts at its beginning."""
    from_s: NonNegativeFloat | None = None
    """Start with what was recorded at this Unix time; null is off."""

    @model_validator(mode="after")
    def _one_beginning(self) -> Self:
        if self.from_offset is not None and self.from_s is not None:
            raise ValueError("give either from_offset or from_s, not both")
        return self


Source = Annotated[LiveSource | RecordedSource, Field(discriminator="kind")]
