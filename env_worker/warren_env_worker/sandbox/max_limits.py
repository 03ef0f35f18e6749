"""The limits of a config's sandboxes, held to the most that the operator allows.

Invariant: under a policy no limit is above the operator's. A config that asks for more is refused; one
that says nothing gets the default, or the operator's where that is less.
"""

from warren.environment import ConfigError
from warren.host_services.settings import SandboxLimits, SandboxSettings
from warren_env_worker.permissions.permissions import Permissions


def allowed(settings: SandboxSettings, permissions: Permissions) -> SandboxSettings:
    """Raises `ConfigError`."""
    if permissions.is_trusted:
        return settings
    return settings.model_copy(update={"limits": _lowered(settings.limits, permissions)})


def _lowered(limits: SandboxLimits, permissions: Permissions) -> SandboxLimits:
    most = SandboxLimits().model_dump() | dict(permissions.sandbox_limits)
    above = {name: value for name, value in limits.model_dump().items() if value > most[name]}
    if asked := sorted(above.keys() & limits.model_fields_set):
        told = ", ".join(f"{name} {above[name]:g} (at most {most[name]:g})" for name in asked)
        raise ConfigError(f"sandbox.limits: more than this env worker's operator allows: {told}")
    return limits.model_copy(update={name: most[name] for name in above})
