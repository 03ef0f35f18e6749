"""Arguments of a config that go to code of a foreign package.

Invariant: where some hold for one split alone, each split that is played, but `train`, has its own: a misspelt name would
play other tasks than were meant, in silence.
"""

from collections.abc import Iterable, Mapping

from pydantic import JsonValue

from warren.environment import ConfigError
from warren_env_worker.permissions.permissions import current


class Arguments:
    """For every split, and for one alone."""

    def __init__(
        self,
        given: Mapping[str, JsonValue] | None,
        of_split: Mapping[str, Mapping[str, JsonValue]] | None,
    ) -> None:
        self._given = given or {}
        self._of_split = of_split or {}

    @property
    def every(self) -> list[Mapping[str, JsonValue]]:
        return [self._given, *self._of_split.values()]

    def of(self, split: str) -> dict[str, JsonValue]:
        """Raises `ConfigError`."""
        if self._of_split and split != "train" and split not in self._of_split:
            raise ConfigError(
                f"split_arguments holds for {', '.join(self._of_split)}, and {split} is played; correct the name, or"
                f" add {split}: {{}} where that has no others"
            )
        return {**self._given, **self._of_split.get(split, {})}

    def has_own(self, split: str) -> bool:
        """Some that make its tasks others than those of `train`."""
        return bool(self._of_split.get(split))

    def require_told_apart(self, split: str) -> None:
        """For tasks that only arguments tell apart: those of `train` are not played by another name unless the config says
        so. Raises `ConfigError`."""
        if split != "train" and split not in self._of_split:
            raise ConfigError(
                f"{split} has the same tasks as train, as nothing tells them apart; give split_arguments for it, or"
                f" {split}: {{}} there to play these"
            )


def require_plain(arguments: Iterable[Mapping[str, JsonValue]]) -> None:
    """Under an operator's policy they hold nothing that could name code: numbers and texts alone. Raises `ConfigError`."""
    values = [value for given in arguments for value in given.values()]
    if not current().is_trusted and any(isinstance(value, dict | list) for value in values):
        raise ConfigError("arguments: this env worker's operator allows numbers and texts alone")
