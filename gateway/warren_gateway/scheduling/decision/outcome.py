"""What was decided."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from warren_schemas.ids import ModelId, WorkerId


class Place(NamedTuple):
    """Where a job that was not admitted stands. Those that could not start now, whoever made room,
    come after all others."""

    number: int
    """1 is next."""
    n_ahead_own: int
    n_ahead_others: int
    reason: str
    """A sentence without a full stop; it names no other owner's run."""


@dataclass(frozen=True, slots=True)
class Decision:
    admitted: tuple[ModelId, ...]
    """In the order in which their messages are to be published."""
    reserved: Mapping[WorkerId, ModelId]
    """These workers take no other job until this one is in. Tell them before publishing."""
    load: Mapping[WorkerId, str]
    """Base models to load."""
    places: Mapping[ModelId, Place]
    """Of all waiting jobs that were not admitted."""
    next: tuple[ModelId, ...]
    """Those that are admitted soon, whoever makes room."""
