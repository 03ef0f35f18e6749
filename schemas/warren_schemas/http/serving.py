"""Bodies about the names under which models are served."""

from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from warren_schemas.base import Frozen
from warren_schemas.config import NonNegativeInt
from warren_schemas.config.numbers import DatasetReference
from warren_schemas.ids import RunId

__all__ = ["ServedView"]


def _is_no_run(name: str) -> str:
    if name.startswith("run_"):
        raise ValueError("names that begin with run_ are those of runs")
    return name


ServedName = Annotated[
    str,
    Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$"),
    AfterValidator(_is_no_run),
]
"""Letters, digits, `.`, `-` and `_`."""


class ServeModel(Frozen):
    """Exactly one of `base_model`, `run` and `adapter`; of a run at most one of `step` and `checkpoint`."""

    name: ServedName
    base_model: Annotated[str, Field(min_length=1, max_length=196)] | None = None
    run: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    """Alone: the name follows what the run publishes."""
    step: NonNegativeInt | None = None
    """The policy in force after this step of the run."""
    checkpoint: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    """The policy of this checkpoint of the run."""
    adapter: DatasetReference | None = None
    """An adapter that was uploaded; the version that is the newest now, unless a digest is given."""

    @model_validator(mode="after")
    def _points_to_one_thing(self) -> Self:
        if [self.base_model, self.run, self.adapter].count(None) != 2:
            raise ValueError("give one of base_model, run and adapter")
        if self.run is None and (self.step is not None or self.checkpoint is not None):
            raise ValueError("step and checkpoint are of a run")
        if self.step is not None and self.checkpoint is not None:
            raise ValueError("give either step or checkpoint")
        return self


class RemoveServed(Frozen):
    name: ServedName
    owner: Annotated[str, Field(min_length=1, max_length=32)] | None = None
    """Whose name it is, for admins; null: the caller's own."""


class ServedView(Frozen):
    """A name, and what it points to."""

    name: str
    owner: str
    base_model: str
    run: RunId | None = None
    """Null: the name is of the base model itself, or of an adapter."""
    step: NonNegativeInt | None = None
    """Of the run, after which its policy is in force; null where the name follows the run."""
    version: NonNegativeInt | None = None
    """Of the policy."""
    adapter: str | None = None
    """`OWNER/NAME@DIGEST` of an adapter that was uploaded."""
    since_s: float

    @property
    def follows(self) -> bool:
        """Whether it is the newest policy of its run, whichever that is."""
        return self.run is not None and self.version is None


class ServedList(Frozen):
    served: tuple[ServedView, ...]
    """By name; yours first."""
