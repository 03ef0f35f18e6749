"""What can be wrong with what a client asks for; each says what to do."""

from collections.abc import Sequence


class NoSuchTrainable(LookupError):
    """There is no such model that a client trains, or it is not the caller's."""


class NoSuchFuture(LookupError):
    """It never was, its outcome is not kept any more, or it is not the caller's."""


class NoSuchSavedWeights(LookupError):
    """There is no such checkpoint or snapshot, or the caller may not see it."""


class SavedWeightsInUse(Exception):
    """It can't be deleted now; says why."""


class ModelClosed(Exception):
    """The model takes no more requests; says why."""


class InvalidOp(ValueError):
    """The op can't be applied to any model; says where and why."""

    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__("; ".join(lines))
        self.lines = tuple(lines)


class RequestConflict(Exception):
    """The key or the sequence number stands for another request."""

    def __init__(self, what: str, future: str) -> None:
        super().__init__(f"{what} was already used for another op, {future}")
        self.future = future


class CantCopy(Exception):
    """There is no copy, and asking again makes none; says why."""
