"""Arguments of a config that go to code of a foreign package.

Invariant: those of a split hold in a split that there is, and where there are any, each split but `train` has its own: a misspelt name
would play other tasks than were meant, in silence.
"""

from collections.abc import Iterable, Mapping

from pydantic import JsonValue

from warren.environment import ConfigError
from warren_env_worker.permissions.permissions import current

SPLITS = ("train", "validation", "test")


class Arguments:
    """For every split, and for one alone."""

    def __init__(
        self,
        given: Mapping[str, JsonValue] | None,
        of_split: Mapping[str, Mapping[str, JsonValue]] | None,
    ) -> None:
        """Raises `ConfigError`."""
        self._given = given or {}
        self._of_split = of_split or {}
        if unknown := self._of_split.keys() - set(SPLITS):
            raise ConfigError(
                f"split_arguments.{min(unknown)}: expected a split, one of {', '.join(SPLITS)}"
            )

    @property
    def every(self) -> list[Mapping[str, JsonValue]]:
        return [self._given, *self._of_split.values()]

    def of(self, split: str) -> dict[str, JsonValue]:
        """Raises `ConfigError`."""
        if self._of_split and split != "train" and split not in self._of_split:
            raise ConfigError(
                f"split_arguments: none hold for the split {split}, which is played; add {split}: {{}} where it has no others"
            )
        return {**self._given, **self._of_split.get(split, {})}


def require_plain(arguments: Iterable[Mapping[str, JsonValue]]) -> None:
    """Under an operator's policy they hold nothing that could name code: numbers and texts alone. Raises `ConfigError`."""
    values = [value for given in arguments for value in given.values()]
    if not current().is_trusted and any(isinstance(value, dict | list) for value in values):
        raise ConfigError("arguments: this env worker's operator allows numbers and texts alone")
