"""Environment variables of the process of one episode, whose values are secrets of its run.

Invariants: the only process that is told a value is the one that plays the episode; programs which the package starts there inherit it, and
processes of the same user can read it in theirs (`/proc/PID/environ`). No secret is there while tasks are listed, for
several runs share them (`warren_env_worker.host.child.task_cache`): each variable holds `PLACEHOLDER` then, as packages make
clients with keys when they are loaded. The fork server has imported the package before: what reads a variable as it is imported there never sees it.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from warren.environment import ConfigError
from warren_schemas.config.environment import SecretName
from warren_schemas.operator_policy import VariableName

PLACEHOLDER = "none-while-tasks-are-listed"
Variables = Mapping[VariableName, SecretName]


class SecretVariables:
    def __init__(self, given: Variables | None, own: AbstractSet[str]) -> None:
        """`own` are those that the episode's program sets itself. Raises `ConfigError`."""
        self._given = dict(given or {})
        if both := self._given.keys() & own:
            raise ConfigError(
                f"variables: {', '.join(sorted(both))} is set for each episode; give the secret by another name"
            )

    @property
    def placeholders(self) -> dict[str, str]:
        return dict.fromkeys(self._given, PLACEHOLDER)

    def of(self, secrets: Mapping[str, str]) -> dict[str, str]:
        """`secrets` are the run's. Raises `ConfigError`."""
        if missing := sorted(set(self._given.values()) - secrets.keys()):
            raise ConfigError(
                f"variables: {', '.join(missing)} is none of the environment's `secrets`; list it there"
            )
        return {variable: secrets[name] for variable, name in self._given.items()}
