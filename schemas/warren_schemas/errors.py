"""The root of the errors that users meet, and the one for what they wrote. All are picklable."""

from collections.abc import Sequence
from typing import ClassVar


class WarrenError(Exception):
    """The root: a message, one line for each thing that was wrong, and the next thing to do."""

    retryable: ClassVar[bool] = False

    def __init__(
        self, message: str, *, details: Sequence[str] = (), hint: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.details = tuple(details)
        self.hint = hint

    def __str__(self) -> str:
        lines = [self.message, *(f"  {line}" for line in self.details)]
        return "\n".join([*lines, self.hint] if self.hint else lines)


class ConfigurationError(WarrenError, ValueError):
    """What the user wrote can't be used."""
