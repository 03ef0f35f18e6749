"""The sandboxes that the episodes of a process share: each opens sessions of its own, and the tier is chosen once."""

import os
from functools import lru_cache

from warren.host_services.settings import SandboxSettings
from warren_env_worker.permissions.permissions import Permissions
from warren_env_worker.sandbox.opening import Sandboxes


def sandboxes_of(settings: SandboxSettings, permissions: Permissions) -> Sandboxes:
    """For the background loop. Raises `ConfigError` for what may not be reached, or is more than allowed.

    Defaults that the config does not name give way to the operator's limits.
    """
    return _shared(os.getpid(), settings.model_dump_json(exclude_unset=True), permissions)


@lru_cache(maxsize=64)
def _shared(process: int, settings: str, permissions: Permissions) -> Sandboxes:
    """A process that was forked makes its own."""
    return Sandboxes(SandboxSettings.model_validate_json(settings), permissions)
