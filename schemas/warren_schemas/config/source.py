"""Where a run's trajectories come from."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from warren_schemas.config.numbers import Name, NonNegativeFloat, NonNegativeInt
from warren_schemas.config.written import Config


class LiveSource(Config):
    """Episodes are played by the run's own policy while it trains."""

    kind: Literal["live"] = "live"


class RecordedSource(Config):
    """The recorded trajectories of another run, in its groups and in its order: a replay."""

    kind: Literal["recorded"] = "recorded"
    run: Name
    """Id of the run that recorded them; it may still be going."""
    from_offset: NonNegativeInt | None = None
    """Begin at this offset of the recording; null is its beginning."""
    from_s: NonNegativeFloat | None = None
    """Begin with what was recorded at this Unix time."""

    @model_validator(mode="after")
    def _one_beginning(self) -> Self:
        if self.from_offset is not None and self.from_s is not None:
            raise ValueError("from_offset and from_s are two beginnings; give one of them")
        return self


Source = Annotated[LiveSource | RecordedSource, Field(discriminator="kind")]
