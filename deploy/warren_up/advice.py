"""What brings a worker that is missing where `warren up` runs: that command, started again.

Its workers share its process, so no other command can add one. What is advised is the command line as
it was given, and what it lacks.
"""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from warren_schemas.base_models.names import UPLOADED, is_uploaded
from warren_schemas.control import WorkerRole

_BASE_MODEL = "--base-model"


@dataclass(frozen=True, slots=True)
class StartAgain:
    command: Sequence[str]
    """The words of the command line, from `warren` on."""
    base_models: Sequence[str]
    """As they were chosen, also where the command line does not name them."""

    def start(self, role: WorkerRole, offer: str) -> str:
        again = "stop `warren up` and start it again with"
        if role is WorkerRole.ENVIRONMENT:
            command = self._command("--env", "module:Class")
            return f"{again}: {command} (of an environment named {offer})"
        if is_uploaded(offer):
            return f"{again}: {self._command('--may-load', f'{UPLOADED}*')}"
        if offer in self.base_models:
            return f"{again}: {self._command()}"
        chosen = () if self._names_base_models else self.base_models
        return f"{again}: {self._command(*self._options(*chosen, offer))}"

    def more_capacity(self, base_model: str, *, is_full: bool) -> str | None:
        """A full-parameter model has a trainer to itself, and there is one."""
        if is_full:
            return None
        return "stop `warren up` and start it again with a larger --max-models"

    def more_gpus(self, base_model: str, n_gpus: int) -> str:
        return f"stop `warren up` and start it again with --devices {n_gpus}"

    @property
    def _names_base_models(self) -> bool:
        return any(word.partition("=")[0] == _BASE_MODEL for word in self.command)

    def _options(self, *base_models: str) -> list[str]:
        return [word for name in base_models for word in (_BASE_MODEL, name)]

    def _command(self, *more: str) -> str:
        return shlex.join([*self.command, *more])
