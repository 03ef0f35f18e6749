"""The protocol of host services: what an episode may ask for.

Invariants: what is opened here ends with the episode, also where its process is killed; it is held to what the run's
owner may reach by the operator's policy, as what a config names is.
"""

from typing import Protocol

from warren.host_services.cells import CellResult
from warren.host_services.reply import Reply
from warren.host_services.settings import SandboxSettings
from warren.host_services.verdict import AnswerForm, Verdict


class SandboxSession(Protocol):
    """A sandbox of one's own, which starts while the caller goes on; cells that are asked for at once run one by one."""

    def run(self, code: str, *, limit_s: float | None = None) -> Reply[CellResult]:
        """Run a cell, for `limit_s` or what the settings allow if that is less. Variables of earlier cells are there,
        unless the tier is `http`. Raises `SandboxFailed`; `ConfigError` for settings that are not allowed."""
        ...

    def close(self) -> None:
        """End it now, and all that runs in it; else it ends with the episode."""
        ...


class HostServices(Protocol):
    """Of one episode."""

    def sandbox(self, settings: SandboxSettings) -> SandboxSession: ...

    def python(
        self, code: str, settings: SandboxSettings, limit_s: float | None
    ) -> Reply[CellResult]:
        """Run a cell in the session that the episode has with these settings."""
        ...

    def verify(self, answer: str, gold: str, form: AnswerForm | None) -> Reply[Verdict]: ...
